"""Environments that a plain `tox` runs, and sessions that a plain `nox` runs: read, not run. Pure.

tox is configured by the first of its files with a configuration; names expand as
`py{312,313}-{a,b}` and `py3{10-13}` (tox.wiki, "Generative environments"). A noxfile is a program:
only literals in it are read, and names that are bound once to a literal.
"""

from __future__ import annotations

import ast
import configparser
import itertools
import math
import re
import tomllib
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ciguard.workflow.matrix import MAX_JOBS
from ciguard.workflow.movable_job import NotMovable
from ciguard.workflow.test_commands import is_other_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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
_SELECTING_OPTIONS: Final = frozenset({"sessions", "keywords", "tags", "pythons"})


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
    """Read the environments of tox, or the sessions of nox, that run without a selection.

    Args:
        tool: "tox" or "nox".
        texts: content of the tool's `FILES` by name.
        folder: of the files, for errors: "" or with "/" at its end.

    Raises:
        NotMovable: names are computed, no environment runs tests, or no file configures the tool.
    """
    environments = _read_tox(texts, folder) if tool == "tox" else _read_nox(texts, folder)
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


@dataclass(frozen=True, slots=True)
class _Session:
    """A function with a decorator `session`.

    Attributes:
        names: of the sessions, one for each Python of a list.
        problem: the reason why `names` cannot be read; "" for none.
    """

    name: str
    line: int
    names: tuple[str, ...] = ()
    is_default: bool = True
    problem: str = ""


def _read_nox(texts: Mapping[str, str], folder: str) -> Environments:
    (name,) = FILES["nox"]
    where = f"{folder}{name}"
    if name not in texts:
        raise _refusal("there is no such file", where, "nox")
    try:
        with warnings.catch_warnings():  # of escapes in its strings
            warnings.simplefilter("ignore")
            tree = ast.parse(texts[name])
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        what = f"not Python: {str(error) or type(error).__name__}"
        raise _refusal(what, where, "nox") from error
    try:
        constants = _constants(tree)
        sessions = list(_sessions(tree, constants))
        selected = _selected_sessions(tree, constants)
    except _ComputedError as error:
        raise _refusal(error.what, f"{where}:{error.line}", "nox") from None
    if selected is None:
        chosen = [session for session in sessions if session.is_default]
    else:
        chosen = []
        for wanted in selected:
            matching = [item for item in sessions if wanted in (item.name, *item.names)]
            if not matching:
                raise _refusal(f"no literal session is called {wanted!r:.60}", where, "nox")
            chosen += [
                session if session.name == wanted else replace(session, names=(wanted,))
                for session in matching
            ]
    for session in chosen:
        if session.problem and not is_other_environment(session.name):
            what = f"--into needs literal sessions: {session.problem}"
            raise _refusal(what, f"{where}:{session.line}", "nox")
    names = [name for session in chosen for name in session.names or (session.name,)]
    return _partition(names, where, "nox")


class _ComputedError(Exception):
    """A value that is no literal."""

    def __init__(self, what: str, node: ast.expr) -> None:
        super().__init__(what)
        self.what = what
        self.line = node.lineno


def _sessions(tree: ast.Module, constants: Mapping[str, ast.expr]) -> Iterator[_Session]:
    top = set(tree.body)
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for decorator in node.decorator_list:
            if _last_name(decorator) == "session":
                yield _session(node, decorator, constants, is_top=node in top)


def _last_name(node: ast.expr) -> str:
    """Return `session` for `session`, `nox.session` and `nox.session(...)`."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _session(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    decorator: ast.expr,
    constants: Mapping[str, ast.expr],
    *,
    is_top: bool,
) -> _Session:
    call = decorator if isinstance(decorator, ast.Call) else None
    keywords = {word.arg: word.value for word in call.keywords} if call else {}
    name = _literal(keywords["name"], constants) if "name" in keywords else function.name
    if not isinstance(name, str):
        raise _ComputedError("the name of a session is computed", keywords["name"])
    is_default = "default" not in keywords or _literal(keywords["default"], constants) is not False
    made = _Session(name, decorator.lineno, is_default=is_default)
    for other in function.decorator_list:
        if _last_name(other) == "parametrize":
            return replace(made, line=other.lineno, problem="one has @nox.parametrize")
    if not is_top or None in keywords or (call and call.args):
        return replace(made, problem="one is made by code")
    python = keywords.get("python", keywords.get("py"))
    try:
        pythons = _literal(python, constants) if python else None
    except _ComputedError as error:
        return replace(made, line=error.line, problem="its Pythons are computed")
    if isinstance(pythons, (list, tuple)) and all(isinstance(text, str) for text in pythons):
        return replace(made, names=tuple(f"{name}-{version}" for version in pythons))
    is_single = isinstance(pythons, str) or not pythons
    return replace(made, names=(name,), problem="" if is_single else "its Pythons are computed")


def _selected_sessions(tree: ast.Module, constants: Mapping[str, ast.expr]) -> Sequence[str] | None:
    """Return `nox.options.sessions`; None if the file does not set it."""
    selected: Sequence[str] | None = None
    assigned = {
        statement.targets[0]: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node.attr not in _SELECTING_OPTIONS:
            continue
        if _last_name(node.value) != "options":
            continue
        value = assigned.get(node)
        if node.attr != "sessions" or value is None or selected is not None:
            raise _ComputedError(f"code sets nox.options.{node.attr}", node)
        selected = _literal(value, constants)
        is_list = isinstance(selected, (list, tuple))
        if not is_list or not all(isinstance(name, str) for name in selected):
            raise _ComputedError("nox.options.sessions is no literal list", node)
    return selected


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the names that the file binds once, at its top, with their values."""
    stored = Counter(
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )
    constants: dict[str, ast.expr] = {}
    for node in tree.body:
        target: ast.expr | None = None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and value is not None and stored[target.id] == 1:
            constants[target.id] = value
    return constants


def _literal(node: ast.expr, constants: Mapping[str, ast.expr]) -> Any:
    value = constants.get(node.id, node) if isinstance(node, ast.Name) else node
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        raise _ComputedError(f"not literal: {ast.unparse(node):.60}", node) from error
