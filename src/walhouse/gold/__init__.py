"""Gold: what PostgreSQL holds now, one Delta table of native types per source table.

``apply`` brings an epoch in: ``survey`` says what it contains, ``fold`` (or ``bag``, without a key) what is left of it,
``native`` and ``types`` turn texts into values, ``merge`` writes. ``lineage`` follows a value
along a row whose key changed.
"""
