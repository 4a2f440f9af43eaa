"""Bronze: the raw decoded WAL and snapshot rows, and how far it is complete. The lake's only state."""
