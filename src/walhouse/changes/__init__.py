"""Resolved changes: what silver and gold are both computed from. Knows bronze's columns, but neither layer above."""
