"""The command line. Every command builds from the configuration and calls one method of ``walhouse.api.Walhouse``.

Invariant: answers go to standard output, everything else (progress, warnings, errors) to standard error; an error is
shown in words and ends in a documented exit code, never in a traceback. Spark is imported by commands that need it.
"""
