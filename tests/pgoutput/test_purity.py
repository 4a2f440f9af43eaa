"""The decoder is pure: it can be used where neither Spark nor a database driver is."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import walhouse.pgoutput


def test_importing_the_decoder_imports_neither_spark_nor_a_driver() -> None:
    modules = [f"walhouse.pgoutput.{module.name}" for module in pkgutil.iter_modules(walhouse.pgoutput.__path__)]
    assert "walhouse.pgoutput.decoder" in modules
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        f"import {', '.join(modules)}\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'pyspark', 'psycopg', 'py4j', 'pydantic'}))\n"
        "print(sorted(name for name in sys.modules if name.startswith('walhouse.')))"
    )
    output = subprocess.run([sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True).stdout
    foreign, own = output.splitlines()
    assert foreign == "[]"
    assert all(
        name in ("walhouse.lsn", "walhouse.names") or name.startswith(("walhouse.errors", "walhouse.pgoutput"))
        for name in eval(own)
    )
