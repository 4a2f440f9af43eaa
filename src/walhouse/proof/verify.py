"""verify: gold equals PostgreSQL, row by row, at one LSN.

Invariant: both sides are of one instant. The source is read in one exported snapshot, whose insert LSN H is made the
end of an epoch; gold is read as of that epoch. Commits before H that the snapshot does not see (a commit is in the WAL
before it is visible) are found in bronze, and the keys that they touched are compared without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

from walhouse.lakehouse.tables import create_table, table_exists
from walhouse.lsn import Lsn
from walhouse.names import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from walhouse.bronze.capture import Capture
    from walhouse.bronze.settings import CaptureSettings
    from walhouse.changes.layer import LayerRun
    from walhouse.changes.relations import RelationCatalog
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.ops.reporting import Reporter
