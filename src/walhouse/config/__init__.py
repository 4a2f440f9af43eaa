"""The configuration: one YAML file, read once, checked whole, frozen.

Invariant: nothing outside this package reads the file, the environment or a secret store; and nothing in it shows a
secret's text (see ``walhouse.config.secrets``).
"""
