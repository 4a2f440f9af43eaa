"""All that talks to the PostgreSQL server: connections, slot, publication, catalog, snapshot chunks."""
