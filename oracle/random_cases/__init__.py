"""Random scenarios for ``make oracle CASES=... SEED=...``, and how one that differs is made short."""
