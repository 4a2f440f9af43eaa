"""What a scenario gave on a real server: frames, catalog, and the events of Debezium's engine for each variant.

Invariant: a recording is complete: with it, walhouse's side can be computed without a server, and compared without
Debezium.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from walhouse.pgoutput.relation import RelationDescription
from walhouse.pgoutput.type_facts import TypeFacts

FOLDER: Final = Path(__file__).resolve().parent.parent / "fixtures" / "scenarios" / "recorded"


@dataclass(frozen=True, slots=True)
class Variant:
    """The connector's properties, and Debezium's records as it handed them over."""

    properties: dict[str, str]
    events: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """One chunk of a table's initial snapshot, as the blocks of a COPY in text format."""

    relation: int
    """The OID of the table."""
    number: int
    blocks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """``frames``: the blocks of a binary COPY over a peek, from the slot's start to ``end``.

    ``types``: by OID, those of columns that are no longer as they were. ``snapshot``: the chunks of the initial
    snapshot, if that is what is compared.
    """

    name: str
    server: str
    database: str
    start: int
    end: int
    next_xid: int
    frames: tuple[bytes, ...]
    relations: tuple[RelationDescription, ...]
    variants: dict[str, Variant]
    snapshot: tuple[SnapshotChunk, ...] = ()
    slot_xmin: int | None = None
    types: dict[int, TypeFacts] = field(default_factory=dict)

    def save(self, folder: Path = FOLDER) -> None:
        """Write the file."""
        content = {
            "server": self.server,
            "database": self.database,
            "start": self.start,
            "end": self.end,
            "next_xid": self.next_xid,
            "slot_xmin": self.slot_xmin,
            "frames": _pack(self.frames),
            "relations": [json.loads(relation.to_json()) for relation in self.relations],
            "types": {str(oid): asdict(facts) for oid, facts in self.types.items()},
            "snapshot": [{**asdict(chunk), "blocks": _pack(chunk.blocks)} for chunk in self.snapshot],
            "variants": {name: asdict(variant) for name, variant in self.variants.items()},
        }
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content, ensure_ascii=False, indent=1)
        (folder / f"{self.name}.json").write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, name: str, folder: Path = FOLDER) -> Self:
        """Read the file."""
        raw: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        return cls(
            name=name,
            server=raw["server"],
            database=raw["database"],
            start=raw["start"],
            end=raw["end"],
            next_xid=raw["next_xid"],
            frames=_unpack(raw["frames"]),
            relations=tuple(RelationDescription.from_json(json.dumps(each)) for each in raw["relations"]),
            variants={
                variant: Variant(each["properties"], tuple(each["events"])) for variant, each in raw["variants"].items()
            },
            slot_xmin=raw.get("slot_xmin"),
            types={int(oid): _type_facts(facts) for oid, facts in raw.get("types", {}).items()},
            snapshot=tuple(
                SnapshotChunk(each["relation"], each["number"], _unpack(each["blocks"]))
                for each in raw.get("snapshot", ())
            ),
        )


def _type_facts(raw: dict[str, Any]) -> TypeFacts:
    labels = raw["enum_labels"]
    return TypeFacts(**{**raw, "enum_labels": None if labels is None else tuple(labels)})


def _pack(blocks: tuple[bytes, ...]) -> str:
    whole = b"".join(len(block).to_bytes(4) + block for block in blocks)
    return base64.b64encode(zlib.compress(whole, 9)).decode()


def _unpack(text: str) -> tuple[bytes, ...]:
    whole = zlib.decompress(base64.b64decode(text))
    blocks, at = [], 0
    while at < len(whole):
        end = at + 4 + int.from_bytes(whole[at : at + 4])
        blocks.append(whole[at + 4 : end])
        at = end
    return tuple(blocks)
