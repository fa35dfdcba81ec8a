"""Products, and the index that finds them."""

from __future__ import annotations

ROW_BYTES = 1 << 16


def load(rows: int) -> list[bytearray]:
    """Read `rows` products; each takes 64 KiB, touched, so that it is resident."""
    return [bytearray(b"\x01" * ROW_BYTES) for _ in range(rows)]


def index(rows: int) -> int:
    """Build the search index; its working set is what the memory test measures (1,600 rows)."""
    return len(load(rows))
