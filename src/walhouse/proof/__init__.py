"""The proof that gold equals PostgreSQL, row by row, at one LSN.

``verify`` chooses the LSN and runs it, ``text`` writes gold's rows as PostgreSQL writes its own, ``invisible`` adds
what bronze has and the source's snapshot could not see yet, ``compare`` finds the differences.
"""
