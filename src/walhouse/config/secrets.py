"""Secrets: a configuration holds references, the driver resolves them when a pass starts.

Invariant: the text of a secret leaves a ``Secret`` through ``reveal()`` only. No repr, str, error, dump or log has it;
an error names the reference. A resolved secret can be pickled, since tasks get it inside their partition.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from walhouse.errors import SecretError

SECRET_MASK: Final = "***"  # noqa: S105  what is shown instead of one
_REFERENCE: Final = re.compile(r"\$\{(env|file|secret):([^{}]+)\}")
_ANY_REFERENCE: Final = re.compile(r"\$\{[^{}]+\}")


class Secret:
    """A secret's text, shown as ``***`` by everything but ``reveal()``."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the call that needs it."""
        return self._text

    def __repr__(self) -> str:
        return SECRET_MASK

    def __format__(self, form: str) -> str:
        return format(SECRET_MASK, form)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))


@dataclass(frozen=True, slots=True)
class SecretReference:
    """Where a secret is: ``${env:NAME}``, ``${file:PATH}``, or ``${secret:scope/key}`` (a Databricks secret scope)."""

    store: str
    name: str

    def __str__(self) -> str:
        return f"${{{self.store}:{self.name}}}"

    @classmethod
    def parse(cls, text: str) -> SecretReference | None:
        """The reference that the whole text is, None if it is none. Raises ValueError, without the text's content."""
        match = _REFERENCE.fullmatch(text.strip())
        if match is None:
            if text.lstrip().startswith("${"):
                raise ValueError("is not a reference: expected ${env:NAME}, ${file:PATH} or ${secret:scope/key}")
            return None
        reference = cls(match[1], match[2].strip())
        if reference.store == "secret" and not all(reference.name.partition("/")):
            raise ValueError("names no key: expected ${secret:scope/key}")
        return reference

    def resolve(self, base: Path) -> Secret:
        """Read the secret now. Relative paths start at ``base``. Raises SecretError, which never holds the text."""
        match self.store:
            case "env":
                return self._from_environment()
            case "file":
                return self._from_file(base)
            case _:
                return self._from_scope()

    def _from_environment(self) -> Secret:
        if not (text := _without_line_break(os.environ.get(self.name, ""))):
            raise self._error("the environment variable is not set", f"Set {self.name} in the environment of walhouse.")
        return Secret(text)

    def _from_file(self, base: Path) -> Secret:
        path = base / Path(self.name).expanduser()
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise self._error(f"{path} cannot be read: {reason}", "Make the file, readable by this user.") from None
        if not (text := _without_line_break(text)):
            raise self._error(f"{path} is empty", "Write the secret into the file.")
        return Secret(text)

    def _from_scope(self) -> Secret:
        scope, _, key = self.name.partition("/")
        try:
            # The SDK takes a second to import; only a configuration that asks for a scope pays for it.
            from databricks.sdk import WorkspaceClient  # noqa: PLC0415

            text = WorkspaceClient().dbutils.secrets.get(scope, key)
        except Exception as error:  # noqa: BLE001  the SDK's errors have no common base and may quote the response
            raise self._error(
                f"Databricks did not give key {key} of scope {scope} ({type(error).__name__})",
                "Check that the scope and the key exist, that this identity may READ the scope, and, outside of"
                " Databricks, that DATABRICKS_HOST and a login are set.",
            ) from None
        if not (text := _without_line_break(text)):
            raise self._error(f"key {key} of scope {scope} is empty", "Put the secret into the scope.")
        return Secret(text)

    def _error(self, problem: str, todo: str) -> SecretError:
        return SecretError(f"The secret {self} cannot be resolved: {problem}.", todo=todo, reference=str(self))


def _without_line_break(text: str) -> str:
    """One at the end is the editor's or echo's, wherever the secret is kept."""
    return text.removesuffix("\n").removesuffix("\r")


def has_reference(text: str) -> bool:
    """True if a part of the text is meant to be replaced, by whatever program."""
    return _ANY_REFERENCE.search(text) is not None


def parse_secret(text: str) -> SecretReference | Secret:
    """The reference that the text is, or the text itself as a literal secret. Raises ValueError."""
    return SecretReference.parse(text) or Secret(text)


def resolve_secret(source: SecretReference | Secret | None, base: Path) -> Secret | None:
    """The secret behind a configured value. Raises SecretError."""
    return source.resolve(base) if isinstance(source, SecretReference) else source
