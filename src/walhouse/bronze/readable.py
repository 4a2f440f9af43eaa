"""Bronze for people: a view of it whose images are maps from column to text.

Invariant: it shows the columns that a row's own relation version describes, whatever the table has become since; what
rows of events show of masked columns, behind the texts of all columns, is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from walhouse.lakehouse.tables import table_exists
from walhouse.names import string_literal
from walhouse.pgoutput.image import MARK
from walhouse.pgoutput.row import Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout

_COMMENT: Final = "The rows of wal with before and after as maps from column to PostgreSQL text"


def ensure_readable(spark: SparkSession, layout: LakeLayout) -> None:
    """Create the view if it is missing and bronze is there."""
    if not table_exists(spark, layout, layout.bronze) or table_exists(spark, layout, layout.bronze_readable):
        return
    spark.sql(
        f"""
        CREATE VIEW IF NOT EXISTS {layout.bronze_readable} COMMENT '{_COMMENT}' AS
        SELECT wal.* EXCEPT (before, after), {_by_name("before")} AS before, {_by_name("after")} AS after
        FROM {layout.bronze} wal LEFT JOIN (
            SELECT relation_version AS version, first(from_json(relation, '{_NAMES}').columns.name) AS names
            FROM {layout.bronze} WHERE kind = '{Kind.RELATION.value}' GROUP BY relation_version
        ) described ON described.version = wal.relation_version
        """
    )


_NAMES: Final = "columns ARRAY<STRUCT<name: STRING>>"
_SEPARATOR: Final = r"'\u0000'"
"""``walhouse.pgoutput.image.SEPARATOR`` as SQL has it: a catalog keeps the view's text."""


def _by_name(image: str) -> str:
    """The image as a map; NULL if there is none. The form is that of ``walhouse.pgoutput.image``."""
    mark = string_literal(MARK)
    text = f"CASE WHEN startswith(text, {mark}) THEN substr(text, 2) WHEN text <> '' THEN text END"
    texts = f"transform(slice(split({image}, {_SEPARATOR}), 1, size(names)), text -> {text})"
    return f"CASE WHEN {image} IS NOT NULL THEN map_from_arrays(names, {texts}) END"
