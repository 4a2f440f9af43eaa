"""Images in Spark: texts out of them, and images made of texts. The form is that of ``walhouse.pgoutput.image``.

Invariant: what is unpacked here is what was packed there, text by text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from walhouse.pgoutput.image import MARK, SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column

_ALL: Final = 2**31 - 1


def text_at(image: Column, place: int) -> Column:
    """The text at a place of an image, from 0; NULL beyond its end. Spark splits an image once for all its places."""
    return _unmarked(F.get(F.split(image, SEPARATOR), F.lit(place)))


def text_alone(image: Column, place: int) -> Column:
    """The same for a place that every image has, where few others are wanted: nothing is split."""
    upto = F.substring_index(image, SEPARATOR, place + 1)
    return _unmarked(upto if place == 0 else F.substring_index(upto, SEPARATOR, -1))


def _unmarked(text: Column) -> Column:
    return F.when(F.startswith(text, F.lit(MARK)), F.substring(text, 2, _ALL)).when(text != "", text)


def packed(texts: Iterable[Column]) -> Column:
    """The image of texts."""
    return F.concat_ws(SEPARATOR, *(_marked(text) for text in texts))


def _marked(text: Column) -> Column:
    needs_mark = (text == "") | F.startswith(text, F.lit(MARK))
    return F.when(needs_mark, F.concat(F.lit(MARK), text)).otherwise(F.coalesce(text, F.lit("")))
