"""Numbers and foreign names as text for people: terminal, Markdown, annotations. Pure.

Names and messages may come from pull requests: no part of them may become markup.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeVar

from ciguard.model import CaseKey, UnitKey
from ciguard.model.machine_use import PeakPrograms

_Item = TypeVar("_Item")

# All characters that Markdown may read as markup within a line: "_" not inside a word, ":" only
# before a slash, which makes an address a link.
_MARK: Final = re.compile(r"[^\w /.,;:()=+%-]|:(?=/)|(?<![^\W_])_|_(?![^\W_])")
ROUND_FROM_USD: Final = 1.0  # larger prices are shown in whole cents
MAX_SHARES: Final = 3  # programs named with their memory
MAX_NAMED: Final = 5  # names in a sentence; others are counted
END_LINES: Final = 10  # of a long output: its beginning has a message, its end a stack, or reversed
ID_WIDTH: Final = 1000  # of an id, which readers copy: longer ones are malicious
_RULER: Final = "=!-_*# "  # characters that frameworks draw around a line
COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")  # Maven's last line contains nothing else
_ERROR_WORDS: Final = re.compile(r"error|fail", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9./_~%:?=&-]{1,1000}(?:#[A-Za-z0-9:-]{1,50})?")

SECONDS_BY_UNIT: Final = {"s": 1, "m": 60, "h": 3600}


def size(value_bytes: float | None) -> str:
    """Format bytes with three digits: "512 MiB", "1.50 GiB"; "-" if not measured."""
    if value_bytes is None:
        return "-"
    value, unit = float(value_bytes), "B"
    for larger_unit in ("KiB", "MiB", "GiB"):
        if abs(value) < 1000:  # noqa: PLR2004  # four digits are less readable than a larger unit
            break
        value, unit = value / 1024, larger_unit
    digits = 0 if unit == "B" or abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2  # noqa: PLR2004
    return f"{value:.{digits}f} {unit}"


def duration(value_s: float | None) -> str:
    """Format seconds: "0.41 s", "12 s", "3 min 05 s", "1 h 02 min"; "-" if not measured."""
    if value_s is None:
        return "-"
    if abs(value_s) < 9.995:  # noqa: PLR2004  # would be rounded to 10.00
        return f"{value_s:.2f} s"
    if abs(value_s) < 59.5:  # noqa: PLR2004
        return f"{value_s:.0f} s"
    minutes, seconds = divmod(round(value_s), 60)
    if minutes < 60:  # noqa: PLR2004
        return f"{minutes} min {seconds:02d} s"
    hours, minutes = divmod(round(value_s / 60), 60)
    return f"{hours} h {minutes:02d} min"


def peak_text(peak: PeakPrograms) -> str:
    """Return "a.py 51.4 GiB + b.py 3.10 GiB, GPU 52.0 GiB; one at a time: 51.4 GiB"."""
    shares = [f"{one_line(name)} {size(held)}" for name, held in peak.program_bytes.items()]
    rest = len(shares) - MAX_SHARES
    text = " + ".join(shares[:MAX_SHARES]) + (f" + {rest} more" if rest > 0 else "")
    text += f", GPU {size(peak.gpu_bytes)}" if peak.gpu_bytes else ""
    return text + (f"; one at a time: {size(peak.apart_bytes)}" if peak.apart_bytes else "")


def price(value_usd: float | None) -> str:
    """Format a price: "0.096 USD", "12.48 USD"; "-" if unknown."""
    if value_usd is None:
        return "-"
    return f"{value_usd:,.{2 if value_usd >= ROUND_FROM_USD else 3}f} USD"


def one_line(text: str, width: int = 200) -> str:
    """Format a text as one line of at most `width` characters.

    Invisible characters (line ends, marks of direction) are spelled out. A long text loses its
    middle, where ids differ least.
    """
    if len(text) > 2 * width:  # cut before the conversion, which is slow, and again after it
        text = f"{text[:width]}{text[-width:]}"
    plain = spell_out(text)
    if len(plain) <= width:
        return plain
    tail = width // 3
    return f"{plain[: width - tail - 3]}...{plain[-tail:]}"


def spell_out(text: str) -> str:
    """Spell out the characters of a text that are not printable."""
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    # Not the codec `unicode_escape`, whose import needs a file: the log has to go on without one.
    return character if character.isprintable() else ascii(character)[1:-1]


def distinct_lines(texts: Sequence[str], width: int) -> list[str]:
    """Format each text as `one_line` does, with different lines for different texts.

    If lines would be equal, their common prefix is replaced by "..."; lines that are still equal
    are numbered.

    Args:
        width: characters of a line, >= 12.
    """
    lines = {text: one_line(text, width) for text in texts}
    for group in _equal_lines(lines):
        first, last = min(group), max(group)
        same = next((n for n, (a, b) in enumerate(zip(first, last)) if a != b), 0)  # noqa: B905
        lines.update({text: one_line(f"...{text[same:]}", width) for text in group})
    for group in _equal_lines(lines):
        for number, text in enumerate(group, 1):
            suffix = f" #{number}"
            lines[text] = one_line(text, width - len(suffix)) + suffix
    return [lines[text] for text in texts]


def _equal_lines(lines: Mapping[str, str]) -> list[list[str]]:
    """Group different texts with equal lines."""
    groups: dict[str, list[str]] = {}
    for text, line in lines.items():
        groups.setdefault(line, []).append(text)
    return [group for group in groups.values() if len(group) > 1]


def count_of(number: int, noun: str) -> str:
    """Format a count: "1 unit", "1,040 units", "2 processes"."""
    ending = "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{'' if number == 1 else ending}"


def name_some(
    items: Sequence[_Item],
    name: Callable[[_Item], str],
    most: int = MAX_NAMED,
    separator: str = ", ",
    last: str = " and ",
) -> str:
    """Return "a, b and 3 more".

    Args:
        name: formats an item; called for `most` items.
        last: separates the number of the other items.
    """
    more = len(items) - most
    named = separator.join(map(name, items[:most]))
    return f"{named}{last}{more:,} more" if more > 0 else named


def whole_name(key: UnitKey) -> str:
    """Format a unit with its suite and variant, if any, in full."""
    suite_key = "/".join(part for part in key[:2] if part)
    return f"[{suite_key}] {key.unit}" if suite_key else key.unit


def unit_name(key: UnitKey, width: int = ID_WIDTH) -> str:
    """Format a unit with its suite and variant, if any, as one line."""
    return one_line(whole_name(key), width)


def find_named(text: str, ids: Sequence[str], names: Sequence[str]) -> list[int]:
    """Return the positions of the tests that a text names: exactly, by its end, or by any part.

    Of these ways the first that matches any test counts.

    Args:
        names: of the tests with their suites, in the order of `ids`.
    """
    ends = (f":{text}", f".{text}", f"/{text}")
    tests = list(enumerate(zip(ids, names)))  # noqa: B905  # Python 3.8
    exact = [position for position, pair in tests if text in pair]
    by_end = exact or [position for position, (test, _) in tests if test.endswith(ends)]
    return by_end or [position for position, (_, name) in tests if text in name]


def case_name(key: CaseKey, width: int = ID_WIDTH) -> str:
    """Format a case with its suite and variant, and its unit unless the case contains its name."""
    name = key.case if key.unit in key.case else f"{key.unit} {key.case}"
    return unit_name(UnitKey(key.suite, key.variant, name), width)


def _entities(text: str) -> str:
    """Replace characters of markup, of tables and of HTML by character references."""
    return _MARK.sub(lambda mark: f"&#{ord(mark[0])};", text)


def escaped(text: str, width: int = 2000) -> str:
    """Escape a text for Markdown and HTML, as one line, also for a table cell.

    GitHub searches rendered text for mentions and issue numbers, and source text for addresses. An
    invisible space (U+200B) after their first characters prevents links.
    """
    escaped_text = _entities(one_line(text, width))
    return re.sub(r"&#64;|&#35;|(?i:www(?=\.))", r"\g<0>&#8203;", escaped_text)


def safe_url(url: str | None) -> str:
    """Return a plain address; "" for any other text, which must not become a link."""
    return url if url and _ADDRESS.fullmatch(url) else ""


def linked(shown: str, url: str | None) -> str:
    """Return a Markdown link; `shown` alone if the address is not plain."""
    return f"[{shown}]({url})" if safe_url(url) else shown


def code(text: str, width: int = 200) -> str:
    """Format a foreign name to copy: GitHub makes no links inside `<code>`."""
    return f"<code>{_entities(one_line(text, width))}</code>"


def _lines(text: str) -> list[str]:
    bare = (line.strip().strip(_RULER) for line in COLOURS.sub("", text).splitlines())
    # "E   ValueError: no": the prefix of an error's own lines in a longer report.
    return [line[1:].strip() if line.startswith("E  ") else line for line in bare if line]


def both_ends(text: str) -> str:
    """Return the first and last lines of an output."""
    lines = text.strip().splitlines()
    if (left := len(lines) - 2 * END_LINES) > 0:
        lines[END_LINES:-END_LINES] = [f"[{count_of(left, 'line')} left out]"]
    return "\n".join(lines)


def last_line(text: str) -> str:
    """Return the last line with words, without rulers."""
    return "".join(_lines(text)[-1:])


def error_lines(text: str) -> list[str]:
    """Return the lines with a word for an error, without rulers."""
    return [line for line in _lines(text) if _ERROR_WORDS.search(line)]


def last_error_line(text: str) -> str:
    """Return the last line with a word for an error and the last line, joined as one line."""
    return " / ".join(dict.fromkeys([*error_lines(text)[-1:], *_lines(text)[-1:]])) or "nothing"


def annotation(
    level: Literal["error", "warning"],
    message: str,
    *,
    file: str = "",
    line: int | None = None,
    title: str = "",
) -> str:
    """Format an annotation as a workflow command of GitHub Actions.

    The escapes are those of the runner's own toolkit.

    Args:
        file: relative to the repository's root.
    """
    properties = {"file": file, "line": "" if line is None else str(line), "title": title}
    texts = {key: _command_text(text) for key, text in properties.items() if text}
    given = ",".join(f"{key}={texts[key].replace(':', '%3A').replace(',', '%2C')}" for key in texts)
    return f"::{level}{' ' if given else ''}{given}::{_command_text(message)}"


def _command_text(text: str) -> str:
    # Control characters are spelled out; line ends have their own escapes.
    text = "".join(each if each in "\r\n" else _visible(each) for each in text)
    # The percent sign first, because the other escapes contain it.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def step_outputs(values: Mapping[str, str]) -> str:
    """Format outputs for `$GITHUB_OUTPUT`, in their order, with delimiters for any value.

    The delimiter is the first of a fixed series that the value does not contain: the same value
    gives the same bytes, and no value can end its own text early to set another output.
    """
    outputs = []
    for name, value in values.items():
        series = itertools.chain(["ciguard_end"], (f"ciguard_end_{n}" for n in itertools.count(2)))
        delimiter = next(candidate for candidate in series if candidate not in value)
        outputs.append(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")
    return "".join(outputs)


def parse_seconds(text: str) -> float:
    """Parse "1h30m" or "1.5h" to 5400.0; raise ValueError for missing or unknown units."""
    if not re.fullmatch(r"(\d+(\.\d+)?[smh])+", text):
        raise ValueError('expected a time like "45m", "1h30m" or "90s"')
    parts = re.findall(r"([\d.]+)([smh])", text)
    return float(sum(float(number) * SECONDS_BY_UNIT[unit] for number, unit in parts))
