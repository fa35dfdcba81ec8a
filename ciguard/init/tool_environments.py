"""Environments that a plain `tox` runs: read, not run. Pure.

tox is configured by the first of its files with a configuration; names expand as
`py{312,313}-{a,b}` and `py3{10-13}` (tox.wiki, "Generative environments"). The sessions of a
noxfile, which is a program, are refused.
"""

from __future__ import annotations

import configparser
import itertools
import math
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ciguard.workflow.matrix import MAX_JOBS
from ciguard.workflow.movable_job import NotMovable
from ciguard.workflow.test_commands import is_other_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# In the order of tox.
FILES: Final = {
    "tox": ("tox.ini", "setup.cfg", "pyproject.toml", "tox.toml"),
    "nox": ("noxfile.py",),
}
DEFAULT_ENVIRONMENT: Final = "py"  # of tox without a configured list
_MAPPINGS: Final = ("gh", "gh-actions")  # of the plug-ins tox-gh and tox-gh-actions
_NAME: Final = re.compile(r"[\w.]+(-[\w.]+)*")
_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_RANGE: Final = re.compile(r"\s*(\d+)-(\d+)\s*")
_OPEN_RANGE: Final = re.compile(r"\s*(-\d+|\d+-)\s*")
_PYTHON: Final = re.compile(r"(?:py(?:thon)?(3)\.?|(3)\.)(\d+)t?")


@dataclass(frozen=True, slots=True)
class Environments:
    """The environments of a call without a selection.

    Attributes:
        tests: names of environments or sessions, in order.
        others: names that do not suggest tests, such as `lint`.
        pythons: versions in the names of `tests`, such as "3.12".
    """

    tests: tuple[str, ...]
    others: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()


def read_environments(tool: str, texts: Mapping[str, str], folder: str = "") -> Environments:
    """Read the environments of tox that run without a selection.

    Args:
        tool: "tox" or "nox".
        texts: content of the tool's `FILES` by name.
        folder: of the files, for errors: "" or with "/" at its end.

    Raises:
        NotMovable: names are computed, no environment runs tests, or no file configures the tool.
    """
    if tool == "nox":
        what = "init does not run a noxfile, and so does not know its sessions"
        raise _refusal(what, f"{folder}{FILES[tool][0]}", tool)
    environments = _read_tox(texts, folder)
    if not environments.tests:
        others = ", ".join(environments.others) or "none"
        what = f"no environment of {tool} runs tests: {others}"
        raise _refusal(what, folder or "./", tool)
    return environments


def _refusal(what: str, where: str, tool: str) -> NotMovable:
    option, variable = ("-s", "nox_session") if tool == "nox" else ("-e", "tox_env")
    fix = f"make them an axis of the matrix, and run {tool} {option} ${{{{ matrix.{variable} }}}}"
    return NotMovable(what, where=where, fix=fix)


def _partition(names: list[str], where: str, tool: str) -> Environments:
    unique = tuple(dict.fromkeys(names))
    for name in unique:
        if not _NAME.fullmatch(name):
            raise _refusal(f"environments are computed: {name:.60}", where, tool)
    tests = tuple(name for name in unique if not is_other_environment(name))
    factors = [_PYTHON.fullmatch(part) for name in tests for part in name.split("-")]
    versions = sorted({int(match[3]) for match in factors if match})
    others = tuple(name for name in unique if name not in tests)
    return Environments(tests, others, tuple(f"3.{minor}" for minor in versions))


def _read_tox(texts: Mapping[str, str], folder: str) -> Environments:
    for name in FILES["tox"]:
        if name not in texts:
            continue
        where = f"{folder}{name}"
        try:
            settings = _tox_settings(name, texts[name])
        except (configparser.Error, ValueError, RecursionError) as error:
            what = str(error).partition("\n")[0]
            raise _refusal(f"cannot be read: {what:.200}", where, "tox") from error
        if settings is None:
            continue
        for mapping in _MAPPINGS:
            if any(key.partition(":")[0] == mapping for key in settings):
                what = f"[{mapping}] chooses environments by the Python of the job"
                raise _refusal(what, where, "tox")
        if setting := re.search(r"(?m)^\s*[\"']?env_?list\b", texts[name]):
            where += f":{texts[name].count(chr(10), 0, setting.end()) + 1}"
        listed = settings.get("env_list", settings.get("envlist", DEFAULT_ENVIRONMENT))
        return _partition(_tox_names(listed, where), where, "tox")
    what = f"no configuration of tox: {', '.join(FILES['tox'])}"
    raise _refusal(what, folder or "./", "tox")


def _tox_settings(name: str, text: str) -> dict[str, Any] | None:
    """Return the settings of tox, with the names of other sections; None without settings."""
    if name.endswith(".toml"):
        table: Any = tomllib.loads(text.removeprefix("\ufeff"))
        if name == "pyproject.toml":
            tools = table.get("tool", {})
            table = tools.get("tox") if isinstance(tools, dict) else None
        if not isinstance(table, dict):
            return None
        legacy = table.get("legacy_tox_ini")
        return _ini_settings(legacy, "tox") if isinstance(legacy, str) else table
    section = "tox:tox" if name == "setup.cfg" else "tox"
    settings = _ini_settings(text, section)
    return settings if name == "tox.ini" or section in settings else None


def _ini_settings(text: str, section: str) -> dict[str, Any]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text.removeprefix("\ufeff"))
    settings = dict(parser[section]) if section in parser else {}
    return {**dict.fromkeys(parser.sections(), ""), **settings}


def _tox_names(listed: Any, where: str) -> list[str]:
    if isinstance(listed, list) and all(isinstance(name, str) for name in listed):
        return listed
    if not isinstance(listed, str):
        raise _refusal("environments are computed", where, "tox")
    names: list[str] = []
    for line in listed.splitlines():
        text = line.partition("#")[0].strip()
        if re.search(r"[{}]", _BRACES.sub("", text)):
            raise _refusal(f"environments are computed: {text:.60}", where, "tox")
        # A comma outside of braces ends an expression.
        for expression in re.findall(r"(?:\{[^{}]*\}|[^,{}])+", text):
            names += _expand(expression.strip(), where)
            if len(names) > MAX_JOBS:
                raise _too_many(where)
    return [name for name in names if name]


def _expand(expression: str, where: str) -> Iterable[str]:
    parts = _BRACES.split(expression)
    choices = []
    for position, part in enumerate(parts):
        in_braces = position % 2
        texts = map(str.strip, part.split(",")) if in_braces else ()
        choices.append([name for text in texts for name in _range(text, where)] or [part])
    if math.prod(map(len, choices)) > MAX_JOBS:
        raise _too_many(where)
    return map("".join, itertools.product(*choices))


def _range(text: str, where: str) -> list[str]:
    if _OPEN_RANGE.fullmatch(text):
        what = f"environments are computed: {{{text}}} depends on the version of tox"
        raise _refusal(what, where, "tox")
    bounds = _RANGE.fullmatch(text)
    if bounds is None:
        return [text]
    first, last = int(bounds[1]), int(bounds[2])
    if abs(last - first) >= MAX_JOBS:
        raise _too_many(where)
    step = 1 if first <= last else -1
    return [str(number) for number in range(first, last + step, step)]


def _too_many(where: str) -> NotMovable:
    return _refusal(f"more than {MAX_JOBS} environments", where, "tox")
