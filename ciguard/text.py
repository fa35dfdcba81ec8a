"""Numbers and foreign names as text for people: terminal, Markdown, annotations. Pure.

Names and messages come from pull requests, so nothing of them may be taken for markup.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final, Literal

from ciguard.model import CaseKey, UnitKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


# All but what no Markdown reader takes for markup within a line: "_" inside a word is none, and ":"
# makes an address a link only before a slash.
_MARK: Final = re.compile(r"[^\w /.,;:()=+%-]|:(?=/)|(?<![^\W_])_|_(?![^\W_])")
NARROW_INTERVAL: Final = 0.03  # below this width whole percents hide an interval
FACTOR_FROM_RATIO: Final = 9.0  # 10 times as much; "+41,234 %" tells nobody "413 times"
ROUND_FROM_USD: Final = 1.0  # from here on, cents will do
ID_WIDTH: Final = 1000  # of an id, which readers copy: only one made to do harm is longer
_RULER: Final = "=!-_*# "  # what frameworks draw around a line
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")  # a line may hold nothing else, as Maven's last one
_ERROR_WORDS: Final = re.compile(r"error|fail", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9./_~%:?=&-]{1,1000}(?:#[A-Za-z0-9:-]{1,50})?")

SECONDS_BY_UNIT: Final = {"s": 1, "m": 60, "h": 3600}


def size(value_bytes: float | None) -> str:
    """Bytes for people, three digits: "512 MiB", "1.50 GiB"; "-" where nothing was measured."""
    if value_bytes is None:
        return "-"
    value, unit = float(value_bytes), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if abs(value) < 1000:  # noqa: PLR2004  # four digits read worse than a larger unit
            break
        value, unit = value / 1024, larger
    digits = 0 if unit == "B" or abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2  # noqa: PLR2004
    return f"{value:.{digits}f} {unit}"


def duration(value_s: float | None) -> str:
    """Seconds for people: "0.41 s", "12 s", "3 min 05 s", "1 h 02 min"; "-" where not measured."""
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


def price(value_usd: float | None) -> str:
    """ "0.096 USD", "12.48 USD"; "-" where a pool has no price."""
    if value_usd is None:
        return "-"
    return f"{value_usd:,.{2 if value_usd >= ROUND_FROM_USD else 3}f} USD"


def percent(ratio: float) -> str:
    """ "+25 %", "-3.0 %", "13 times"; a change from 0 has no percentage."""
    if ratio == float("inf"):
        return "from nothing"
    if ratio >= FACTOR_FROM_RATIO:
        return f"{_factor(ratio)} times"
    value = 100 * ratio
    digits = 0 if abs(value) >= 9.5 else 1  # noqa: PLR2004
    return f"{value:+,.{digits}f} %"


def change_text(difference: float, ratio: float | None, show: Callable[[float], str]) -> str:
    """ "-59.57 % (-10.5 MiB)": two decimals, as people quote them; from nothing the amount alone.

    Args:
        show: an amount, >= 0.
    """
    sign = "-" if difference < 0 else "+" if difference else ""
    amount = f"{sign}{show(abs(difference))}"
    return amount if ratio is None else f"{100 * ratio:+,.2f} % ({amount})"


def percents(low: float, high: float, most: float = float("inf")) -> str:
    """An interval of changes in percent, "+8..+12", or "1.5..13 times"; above `most` is "more"."""
    if high >= FACTOR_FROM_RATIO:
        return f"{_factor(low)}..{f'{_factor(high)} times' if high < most else 'more'}"
    digits = 0 if high - low >= NARROW_INTERVAL else 1
    return f"{100 * low:+,.{digits}f}..{100 * high:+,.{digits}f}"


def _factor(ratio: float) -> str:
    value = 1 + ratio
    return f"{value:,.{0 if value >= 9.95 else 1 if value >= 0.95 else 2}f}"  # noqa: PLR2004


def one_line(text: str, width: int = 200) -> str:
    """One line of at most `width` characters: what cannot be seen (line ends, marks of direction)
    is spelled out, and a long text loses its middle, where ids differ least."""
    if len(text) > 2 * width:  # a cut before the work; another one behind it
        text = f"{text[:width]}{text[-width:]}"
    plain = text if text.isprintable() else "".join(map(_visible, text))
    if len(plain) <= width:
        return plain
    tail = width // 3
    return f"{plain[: width - tail - 3]}...{plain[-tail:]}"


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def distinct_lines(texts: Sequence[str], width: int) -> list[str]:
    """Each text as `one_line` has it, but no two that differ look the same.

    Where they would, their common begin gives way to what follows it; where that is not enough,
    they are numbered. Texts that are equal stay equal.

    Args:
        width: characters of a line, >= 12.
    """
    shown = {text: one_line(text, width) for text in texts}
    for group in _alike(shown):
        first, last = min(group), max(group)
        same = next((n for n, (a, b) in enumerate(zip(first, last)) if a != b), 0)  # noqa: B905
        shown.update({text: one_line(f"...{text[same:]}", width) for text in group})
    for group in _alike(shown):
        for number, text in enumerate(group, 1):
            mark = f" #{number}"
            shown[text] = one_line(text, width - len(mark)) + mark
    return [shown[text] for text in texts]


def _alike(shown: Mapping[str, str]) -> list[list[str]]:
    """Different texts that are shown alike, by line."""
    groups: dict[str, list[str]] = {}
    for text, line in shown.items():
        groups.setdefault(line, []).append(text)
    return [group for group in groups.values() if len(group) > 1]


def count_of(number: int, noun: str) -> str:
    """ "1 unit", "1,040 units", "2 processes"."""
    ending = "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{'' if number == 1 else ending}"


def whole_name(key: UnitKey) -> str:
    """The unit as it is, with its suite and variant where it has them."""
    way = "/".join(part for part in key[:2] if part)
    return f"[{way}] {key.unit}" if way else key.unit


def unit_name(key: UnitKey, width: int = ID_WIDTH) -> str:
    """The unit in one line, with its suite and variant where it has them."""
    return one_line(whole_name(key), width)


def case_name(key: CaseKey, width: int = ID_WIDTH) -> str:
    """The case in one line, with its unit, suite and variant where those say more."""
    name = key.case if key.unit in key.case else f"{key.unit} {key.case}"
    return unit_name(UnitKey(key.suite, key.variant, name), width)


def _entities(text: str) -> str:
    """Every mark as a character reference, so that nothing is markup, a table's edge or HTML."""
    return _MARK.sub(lambda mark: f"&#{ord(mark[0])};", text)


def escaped(text: str, width: int = 2000) -> str:
    """A text that Markdown and HTML show as it is, in one line, in a table cell too.

    GitHub looks for mentions and issue numbers in what it has rendered, and for addresses before:
    an invisible space (U+200B) behind their marks keeps it from finding any.
    """
    found = _entities(one_line(text, width))
    return re.sub(r"&#64;|&#35;|(?i:www(?=\.))", r"\g<0>&#8203;", found)


def safe_url(url: str | None) -> str:
    """The address where it is a plain one; "" for all else, which no page may link to."""
    return url if url and _ADDRESS.fullmatch(url) else ""


def linked(shown: str, url: str | None) -> str:
    """Markdown that is a link; as it is where the address is no plain one."""
    return f"[{shown}]({url})" if safe_url(url) else shown


def code(text: str, width: int = 200) -> str:
    """A foreign name as it can be copied: GitHub looks for nothing inside `<code>`."""
    return f"<code>{_entities(one_line(text, width))}</code>"


def _lines(text: str) -> list[str]:
    bare = (line.strip().strip(_RULER) for line in _COLOURS.sub("", text).splitlines())
    # "E   ValueError: no": how an error's own lines are marked in a longer report.
    return [line[1:].strip() if line.startswith("E  ") else line for line in bare if line]


def last_line(text: str) -> str:
    """The last line that says something, without what is drawn around it."""
    return "".join(_lines(text)[-1:])


def error_lines(text: str) -> list[str]:
    """The lines that speak of an error, without what is drawn around them."""
    return [line for line in _lines(text) if _ERROR_WORDS.search(line)]


def last_error_line(text: str) -> str:
    """The last line, and before it the last one that speaks of an error, in one line."""
    return " / ".join(dict.fromkeys([*error_lines(text)[-1:], *_lines(text)[-1:]])) or "nothing"


def annotation(
    level: Literal["error", "warning"],
    message: str,
    *,
    file: str = "",
    line: int | None = None,
    title: str = "",
) -> str:
    """Spell an annotation as the workflow command that the runner of GitHub Actions obeys.

    The escapes are those of the runner's own toolkit.

    Args:
        file: relative to the repository's root.
    """
    properties = {"file": file, "line": "" if line is None else str(line), "title": title}
    given = ",".join(f"{key}={_command_property(text)}" for key, text in properties.items() if text)
    return f"::{level}{' ' if given else ''}{given}::{_command_text(message)}"


def _command_text(text: str) -> str:
    # Marks that a terminal or a browser obeys are spelled out; line ends have their own escapes.
    text = "".join(
        character
        if character.isprintable() or character in "\r\n"
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
    # The percent sign first, else it would escape the escapes.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _command_property(text: str) -> str:
    return _command_text(text).replace(":", "%3A").replace(",", "%2C")


def step_outputs(values: Mapping[str, str]) -> str:
    """Spell outputs for `$GITHUB_OUTPUT`, in their order, in the form that holds any value.

    The delimiter is the first of a fixed series that the value does not contain: the same value
    gives the same bytes, and no value can end its own text early to set another output.
    """
    written = []
    for name, value in values.items():
        marks = itertools.chain(["ciguard_end"], (f"ciguard_end_{n}" for n in itertools.count(2)))
        delimiter = next(mark for mark in marks if mark not in value)
        written.append(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")
    return "".join(written)


def parse_seconds(text: str) -> float:
    """5400.0 for "1h30m" or "1.5h"; raises ValueError for a text without units, or of others."""
    if not re.fullmatch(r"(\d+(\.\d+)?[smh])+", text):
        raise ValueError('expected a time like "45m", "1h30m" or "90s"')
    parts = re.findall(r"([\d.]+)([smh])", text)
    return float(sum(float(number) * SECONDS_BY_UNIT[unit] for number, unit in parts))
