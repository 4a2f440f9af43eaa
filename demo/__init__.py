"""The demo: a shop on a real PostgreSQL, captured while it works, and proven."""
