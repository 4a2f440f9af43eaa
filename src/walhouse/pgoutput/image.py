"""The image of a row: the texts of all its columns in one string, as bronze holds it.

``SEPARATOR`` stands between the texts. Nothing stands for NULL, and for a value that was not sent; a text that is
empty, or begins with ``MARK``, has one ``MARK`` before it. Spark writes one string in a third of the time that it
takes for a list of twelve, and reads them out of it as fast as out of the list.

Invariant: unpacking gives the texts that were packed, whatever they are: PostgreSQL's texts never have U+0000. (A row
without columns has the image of a single NULL.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from walhouse.pgoutput.row import TEXTS

if TYPE_CHECKING:
    from collections.abc import Sequence

SEPARATOR: Final = "\0"
MARK: Final = "\\"


def pack_row(texts: Sequence[str | None]) -> str:
    """The image of one row."""
    return SEPARATOR.join("" if text is None else MARK + text if text[:1] in {"", MARK} else text for text in texts)


def unpack_row(image: str) -> list[str | None]:
    """The texts of one image."""
    return [None if not text else text.removeprefix(MARK) for text in image.split(SEPARATOR)]


def pack(lists: pa.ListArray) -> pa.StringArray:
    """The images of rows; a row that is NULL stays it."""
    if lists.offset:
        lists = lists.take(pa.array(range(len(lists)), pa.int64()))  # a slice, by itself
    texts = pc.fill_null(lists.values, "")
    needs_mark = pc.and_(lists.values.is_valid(), pc.or_(pc.equal(texts, ""), pc.starts_with(texts, MARK)))
    return join(lists.offsets, marked(texts, needs_mark), lists.is_null())


def unpack(images: pa.StringArray) -> pa.ListArray:
    """The lists of texts of images; one that is NULL stays it."""
    lists = pc.split_pattern(images, SEPARATOR)
    texts = lists.values
    known = pc.if_else(pc.equal(texts, ""), None, texts)
    has_mark = pc.starts_with(texts, MARK)
    known = pc.replace_with_mask(known, has_mark, pc.utf8_slice_codeunits(texts.filter(has_mark), 1))
    return pa.ListArray.from_arrays(lists.offsets, known, type=TEXTS, mask=lists.is_null())


def marked(texts: pa.StringArray, needs_mark: pa.BooleanArray) -> pa.StringArray:
    """The texts, those with a mark that need one."""
    if not pc.any(needs_mark).as_py():
        return texts
    return pc.replace_with_mask(texts, needs_mark, pc.binary_join_element_wise(MARK, texts.filter(needs_mark), ""))


def join(offsets: pa.Array, texts: pa.StringArray, null: pa.BooleanArray | None = None) -> pa.StringArray:
    """The images of rows whose texts, marked and without NULL, stand end to end from ``offsets`` on."""
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts, mask=null), SEPARATOR)
