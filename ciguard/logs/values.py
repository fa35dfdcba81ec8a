"""A number in a log, its place, and the parser of texts such as `20.391 GiB` or `6h0m0s`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Kind = Literal["metric", "failure"]

# Factor to the unit of values (bytes, seconds or a count). TensorFlow prints "2.12G".
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
# Units for formats of times: `1h2m3.5s`, and `1:02:03.5` or `2:03.5`.
SPANS: Final = ("hms", "clock")
_HMS: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(\d+(?:\.\d+)?)s")
_CLOCK: Final = re.compile(r"(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
# With a comma between thousands: `7,192,664` and `1,234.5`, but not `7,19`, `0,123` or `1.234,5`.
_NUMBER: Final = re.compile(
    r"[+-]?(?:\d+|[1-9]\d{0,2}(?:,\d{3})+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?"
)


@dataclass(frozen=True, slots=True)
class KeyField:
    """A part of the identity of a value, such as a limit or a device.

    Attributes:
        printed: the rounded form in the log; "" for no such form.
    """

    name: str
    value: str
    printed: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a value.

    Attributes:
        job, step: "" if unknown.
        line: line from 1 in the log of the step, or of the job if there is no log of the step.
        step_number: as in the address of a line, `#step:18:720`; 0 if unknown.
    """

    job: str = ""
    step: str = ""
    line: int = 0
    step_number: int = 0


UNPLACED: Final = Place()


@dataclass(frozen=True, slots=True)
class LogValue:
    """A number in a log, or one occurrence of a text.

    Attributes:
        name: name of the pattern, with the group: `xla.rematerialization.after_bytes`.
        value: in bytes, seconds or as a count; 1 for an occurrence. Finite.
        unit: "B", "s", "%" or "".
        resolution: value of the last printed digit, in `unit`; smaller differences count as 0.
        facts: other groups of the line, by name; no part of the identity.
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
    """A text in the position of a number, such as `nan` or `nothing`: the value is absent."""

    name: str
    text: str
    place: Place


def distinct(difference: float, resolution: float) -> float:
    """Return the difference of two values; 0 if it is less than the resolution."""
    return 0.0 if abs(difference) < resolution * (1 - ROUNDING) else difference


def parse_quantity(text: str, unit: str) -> tuple[float, float, str] | None:
    """Parse a number: return value, resolution and unit, scaled to bytes, seconds or a count.

    Args:
        unit: a key of SCALES, or of SPANS.

    Returns:
        None if the text is no finite number, such as `nothing` or `nan`, or the unit is unknown.
    """
    if unit in SPANS:
        return _parse_span(text, _HMS if unit == "hms" else _CLOCK)
    match = _NUMBER.fullmatch(text.strip())
    if match is None or unit not in SCALES:
        return None
    scale, scaled = SCALES[unit]
    value = float(text.replace(",", "")) * scale
    decimals = max(len(match[1] or ""), 5 if match[2] else 0)  # %g cuts 1.00000e+06 to 1e+06
    resolution = scale * float(f"1e{int(match[2] or 0) - decimals}")
    if match[2]:  # also for `0e300`
        resolution = min(resolution, abs(value))
    return (value, resolution, scaled) if math.isfinite(value) else None


def _parse_span(text: str, pattern: re.Pattern[str]) -> tuple[float, float, str] | None:
    match = pattern.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = (part or "0" for part in match.groups())
    digits = len(seconds.partition(".")[2])
    value = 3600 * float(hours) + 60 * float(minutes) + float(seconds)
    return (value, float(f"1e{-digits}"), "s") if math.isfinite(value) else None
