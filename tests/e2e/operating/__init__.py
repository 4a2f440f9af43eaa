"""Operators of a lake, made up: what they do to one source and one lake, in any order (``test_random_operations``)."""
