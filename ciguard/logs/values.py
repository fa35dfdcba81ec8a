"""A number of a log, where it is, and how texts such as `20.391 GiB` or `6h0m0s` become one."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["metric", "failure"]

# Factor to the unit that values have: bytes, seconds or a count. TensorFlow prints "2.12G".
_BINARY: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
SCALES: Final[Mapping[str, tuple[float, str]]] = {
    "": (1, ""),
    "%": (1, "%"),
    **dict.fromkeys(("B", "byte", "bytes"), (1, "B")),
    **{f"{prefix}iB": (scale, "B") for prefix, scale in _BINARY.items()},
    **{prefix: (scale, "B") for prefix, scale in _BINARY.items()},
    **{f"{prefix}B": (1000**power, "B") for power, prefix in enumerate("KMGTP", 1)},
    "kB": (1000, "B"),
    "ns": (1e-9, "s"),
    "us": (1e-6, "s"),
    "ms": (1e-3, "s"),
    "s": (1, "s"),
    **dict.fromkeys(("min", "minute", "minutes"), (60, "s")),
    **dict.fromkeys(("h", "hour", "hours"), (3600, "s")),
    **dict.fromkeys(("sec", "second", "seconds"), (1, "s")),
}
ROUNDING: Final = 1e-9  # of a resolution: binary fractions of the same decimal differ by less
# Units that are a way to write a time: `1h2m3.5s`, and `1:02:03.5` or `2:03.5`.
SPANS: Final = ("hms", "clock")
_HMS: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(\d+(?:\.\d+)?)s")
_CLOCK: Final = re.compile(r"(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
_NUMBER: Final = re.compile(r"[+-]?\d+(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?")


@dataclass(frozen=True, slots=True)
class KeyField:
    """What a value belongs to, such as a limit or a device.

    Attributes:
        printed: how the log rounds it for people; "" if it does not.
    """

    name: str
    value: str
    printed: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value is.

    Attributes:
        job, step: "" where a log does not say.
        line: in the step's log, else in the job's, from 1.
        step_number: as in the address of a line, `#step:18:720`; 0 where it is not known.
    """

    job: str = ""
    step: str = ""
    line: int = 0
    step_number: int = 0


@dataclass(frozen=True, slots=True)
class LogValue:
    """A number that a log says, or one occurrence of a text.

    Attributes:
        name: of the row, with the group: `xla.rematerialization.after_bytes`.
        value: in bytes, seconds or as a count; 1 of an occurrence. Finite.
        unit: "B", "s", "%" or "".
        resolution: the last digit that was printed, in `unit`: a smaller difference is none.
        facts: what else the line says, by group: no part of the identity.
    """

    name: str
    value: float
    unit: str
    key: tuple[KeyField, ...]
    place: Place
    kind: Kind = "metric"
    resolution: float = 0.0
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class NotANumber:
    """What stands in the place of a number, such as `nan` or `nothing`: the value is absent."""

    name: str
    text: str
    place: Place


def distinct(difference: float, resolution: float) -> float:
    """The difference of two values; 0 below the last digit that both print."""
    return 0.0 if abs(difference) < resolution * (1 - ROUNDING) else difference


def parse_quantity(text: str, unit: str) -> tuple[float, float, str] | None:
    """A number, its resolution and its unit, scaled to bytes, seconds or a count.

    Args:
        unit: a key of SCALES, or of SPANS.

    Returns:
        None of what is no finite number, such as `nothing` or `nan`, or has an unknown unit.
    """
    if unit in SPANS:
        return _parse_span(text, _HMS if unit == "hms" else _CLOCK)
    found = _NUMBER.fullmatch(text.strip())
    if found is None or unit not in SCALES:
        return None
    scale, scaled = SCALES[unit]
    value = float(text) * scale
    digits = len(found[1] or "") - int(found[2] or 0)
    resolution = scale * float(f"1e{-digits}")
    return (value, resolution, scaled) if math.isfinite(value) else None


def _parse_span(text: str, pattern: re.Pattern[str]) -> tuple[float, float, str] | None:
    found = pattern.fullmatch(text)
    if found is None:
        return None
    hours, minutes, seconds = (part or "0" for part in found.groups())
    digits = len(seconds.partition(".")[2])
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds), float(f"1e{-digits}"), "s"
