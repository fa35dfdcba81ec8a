"""Columns of integers, flags and texts <-> named, compressed sections of bytes.

`history/file.py` is made of such sections. Files are not trusted: a declared size is checked
against the most that the compressed bytes can hold before memory is allocated, and every error is a
`CorruptData`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

MAX_RAW_BYTES: Final = 1 << 31  # of one section
MAX_RATIO: Final = 1100  # deflate reaches 1032: a section that claims more is an attack
LARGEST: Final = 1 << 53  # up to it, float64, and so every column in memory, is exact
BLOCK: Final = 1 << 16  # values that are decoded at once, so that they stay in the cache
_SAMPLE: Final = 64


class CorruptData(ValueError):
    """Bytes that are no section of the requested kind."""


def _differences(values: Integers, series_starts: Integers) -> Integers:
    """Return each value minus the previous one, which is 0 at each of `series_starts`."""
    result: Integers = np.diff(values, prepend=0)
    result[series_starts] = values[series_starts]
    return result


def _sums(differences: Integers, series_starts: Integers) -> Integers:
    """Invert `_differences`; wraps silently, so the caller must check the range."""
    total: Integers = np.cumsum(differences)
    before: Integers = np.where(series_starts > 0, total[series_starts - 1], 0)
    return total - np.repeat(before, np.diff(series_starts, append=differences.size))


def _to_planes(values: Integers) -> tuple[int, bytes]:
    """Return (bytes a value, bytes) of small numbers of both signs, all lowest bytes first."""
    folded = ((values << 1) ^ (values >> 63)).view(np.uint64)
    width = max(1, (int(folded.max()).bit_length() + 7) // 8)
    planes = folded.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width].T
    return width, planes.tobytes()


def _from_planes(planes: NDArray[np.uint8]) -> Integers:
    wide = np.zeros((planes.shape[1], 8), np.uint8)
    for byte, plane in enumerate(planes):
        wide[:, byte] = plane
    folded = wide.reshape(-1).view("<u8").astype(np.uint64, copy=False)
    values: Integers = (folded >> np.uint64(1)).view(np.int64)
    values ^= -(folded & np.uint64(1)).view(np.int64)
    return values


def _blocks(count: int, series_starts: Integers | None) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of blocks of about `BLOCK` values; no series is divided."""
    ends = np.arange(BLOCK, count, BLOCK)
    if series_starts is not None:
        ends = np.append(series_starts, count)[np.searchsorted(series_starts, ends)]
    return pairwise(np.unique([0, *ends.tolist(), count]).tolist())


def _compress(raw: bytes) -> bytes:
    # Measured on 2,000,000 noisy durations: run lengths and Huffman codes alone give 1.61 bytes a
    # value in 38 ms; level 6 gives 1.64 in 173 ms, for noise has no repetitions to look for.
    squeeze = zlib.compressobj(1, zlib.DEFLATED, 15, 9, zlib.Z_RLE)
    return squeeze.compress(raw) + squeeze.flush()


@dataclass(frozen=True, slots=True)
class Writer:
    """Writer of sections: `index` describes them, `body` holds their bytes in the same order."""

    index: list[dict[str, Any]] = field(default_factory=list)
    body: list[bytes] = field(default_factory=list)

    def _put(self, name: str, content: bytes, raw_bytes: int, **more: int) -> None:
        self.index.append({"name": name, "bytes": len(content), "raw": raw_bytes, **more})
        self.body.append(content)

    def integers(self, name: str, values: Integers, series_starts: Integers | None = None) -> None:
        """Add a column, each value within +-`LARGEST`.

        Args:
            name: of the section.
            values: the column.
            series_starts: ascending positions at which a series begins, the first one 0: in a
                series, the differences are stored, which are small in a steady series.
        """
        if not values.size or (values == values[0]).all():
            self.index.append({"name": name, "all": int(values[0]) if values.size else 0})
            return
        # The divisor of the first values is 1 in the usual case, which needs no other values.
        is_one = np.gcd.reduce(values[:_SAMPLE]) == 1
        divisor = 1 if is_one else int(np.gcd.reduce(values))
        scaled = values // divisor if divisor > 1 else values
        width, raw = _to_planes(
            scaled if series_starts is None else _differences(scaled, series_starts)
        )
        self._put(name, _compress(raw), len(raw), width=width, divisor=divisor)

    def flags(self, name: str, values: Flags) -> None:
        """Add a column of flags, a bit each."""
        raw = np.packbits(values).tobytes()
        self._put(name, _compress(raw), len(raw))

    def texts(self, name: str, values: Sequence[str]) -> None:
        """Add a column of texts; lone surrogates are kept."""
        self.integers(f"{name}.lengths", np.fromiter(map(len, values), np.int64, len(values)))
        self.blob(name, "".join(values).encode("utf-8", "surrogatepass"))

    def optional_texts(self, name: str, values: Sequence[str | None]) -> None:
        """Add a column of texts and None, which takes a bit."""
        present = np.array([value is not None for value in values], np.bool_)
        self.flags(f"{name}.present", present)
        self.texts(name, [value for value in values if value is not None])

    def blob(self, name: str, raw: bytes) -> None:
        """Add bytes with many repetitions."""
        self._put(name, zlib.compress(raw, 6), len(raw))


@dataclass(frozen=True, slots=True)
class Reader:
    """Reader of sections by name; every method raises `CorruptData`."""

    sections: Mapping[str, tuple[Mapping[str, Any], bytes | memoryview]]

    def _entry(self, name: str) -> tuple[Mapping[str, Any], bytes | memoryview]:
        if name not in self.sections:
            raise CorruptData(f"no section {name}")
        return self.sections[name]

    def _number(self, name: str, key: str, largest: int) -> int:
        value = self._entry(name)[0].get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
            raise CorruptData(f"section {name}: {key} is {value!r:.40}")
        return value

    def blob(self, name: str, expected: int | None = None) -> bytes:
        """Return the bytes of a section, `expected` many if given."""
        squeezed = self._entry(name)[1]
        raw_bytes = self._number(name, "raw", min(MAX_RAW_BYTES, MAX_RATIO * len(squeezed)))
        if expected is not None and raw_bytes != expected:
            raise CorruptData(f"section {name}: {raw_bytes} bytes where {expected} are needed")
        swell = zlib.decompressobj()
        try:
            raw = swell.decompress(squeezed, raw_bytes + 1)
        except zlib.error as error:
            raise CorruptData(f"section {name}: {error}") from None
        if len(raw) != raw_bytes or not swell.eof or swell.unused_data:
            raise CorruptData(f"section {name}: is not the {raw_bytes} bytes it says")
        return raw

    def integers(self, name: str, count: int, series_starts: Integers | None = None) -> Integers:
        """Return a column of `count` integers within +-`LARGEST`."""
        return self.column(name, count, series_starts, lambda values: values).copy()

    def column(
        self,
        name: str,
        count: int,
        series_starts: Integers | None,
        converted: Callable[[Integers], NDArray[Any]],
    ) -> NDArray[Any]:
        """Return a column of `count` integers in another type, without a copy of all as int64.

        Args:
            converted: converts the values of a part of the column.

        Returns:
            A read-only broadcast without memory if all values are equal.
        """
        constant = self._entry(name)[0].get("all")
        if constant is not None:
            if isinstance(constant, bool) or not isinstance(constant, int):
                raise CorruptData(f"section {name}: all is {constant!r:.40}")
            if abs(constant) > LARGEST:
                raise CorruptData(f"section {name}: {constant} is out of range")
            return np.broadcast_to(converted(np.full(min(count, 1), constant, np.int64)), (count,))
        width = self._number(name, "width", 8)
        divisor = self._number(name, "divisor", LARGEST)
        planes = np.frombuffer(self.blob(name, width * count), np.uint8).reshape(width, count)
        result = np.empty(count, converted(np.zeros(0, np.int64)).dtype)
        for begin, end in _blocks(count, series_starts):
            values = _from_planes(planes[:, begin:end])
            if series_starts is not None:
                first, last = np.searchsorted(series_starts, (begin, end))
                values = _sums(values, series_starts[first:last] - begin)
            reach = max(abs(int(values.max())), abs(int(values.min())))
            if reach * divisor > LARGEST:
                raise CorruptData(f"section {name}: a value is out of range")
            result[begin:end] = converted(values * divisor if divisor > 1 else values)
        return result

    def flags(self, name: str, count: int) -> Flags:
        raw = self.blob(name, (count + 7) // 8)
        return np.unpackbits(np.frombuffer(raw, np.uint8), count=count).astype(np.bool_)

    def texts(self, name: str, count: int) -> list[str]:
        lengths = self.integers(f"{name}.lengths", count)
        try:
            joined = self.blob(name).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise CorruptData(f"section {name}: {error}") from None
        if count and int(lengths.min()) < 0:
            raise CorruptData(f"section {name}: a negative length")
        # Summed as floats: hostile lengths must not wrap round to the right total.
        if float(lengths.sum(dtype=np.float64)) != len(joined):
            raise CorruptData(f"section {name}: the lengths do not add up")
        ends = np.cumsum(lengths)
        return [
            joined[start:end]
            for start, end in zip((ends - lengths).tolist(), ends.tolist(), strict=True)
        ]

    def optional_texts(self, name: str, count: int) -> list[str | None]:
        present = self.flags(f"{name}.present", count)
        texts = iter(self.texts(name, int(present.sum())))
        if not present.any():
            return [None] * count
        return [next(texts) if is_present else None for is_present in present.tolist()]

    def json(self, name: str) -> Any:
        try:
            return json.loads(self.blob(name))
        except (ValueError, RecursionError) as error:
            if isinstance(error, CorruptData):
                raise
            raise CorruptData(f"section {name}: no JSON") from None
