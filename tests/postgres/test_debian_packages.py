"""PostgreSQL 15 out of Debian's packages: what is said where it cannot be had. ``make test-pg15`` shows that it can."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING

import pytest

from fixtures.debian import DebianPackages
from fixtures.postgresql15 import postgresql15

if TYPE_CHECKING:
    from pathlib import Path


def test_a_system_without_apt_is_told_what_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"apt-get is missing: postgresql-15 .* Debian 12"):
        DebianPackages.fetch(["postgresql-15"], tmp_path)


def test_unpacked_libraries_are_found_wherever_a_package_puts_them(tmp_path: Path) -> None:
    for library in (
        "lib/libone.so.1",
        "usr/lib/x86_64-linux-gnu/blas/libtwo.so.3.1",
        "usr/lib/postgresql/15/no.so",
    ):
        (tmp_path / library).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / library).touch()
    assert DebianPackages(tmp_path).library_path() == f"{tmp_path}/lib:{tmp_path}/usr/lib/x86_64-linux-gnu/blas"


def test_two_runs_do_not_share_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    with (tmp_path / "server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RuntimeError, match="Another run uses"), postgresql15(folder):
            pass
    assert not folder.exists()
