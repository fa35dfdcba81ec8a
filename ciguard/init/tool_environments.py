"""Which environments a plain `tox` runs, and which sessions a plain `nox`: read, never run. Pure.

tox reads the first of its files that configures it; its names expand as `py{312,313}-{a,b}` and
`py3{10-13}` (tox.wiki, "Generative environments"). A noxfile is a program: only literals in it are
read, and names that it binds once to a literal.
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
DEFAULT_ENVIRONMENT: Final = "py"  # of tox, where no list is configured
_MAPPINGS: Final = ("gh", "gh-actions")  # of the plug-ins tox-gh and tox-gh-actions
_NAME: Final = re.compile(r"[\w.]+(-[\w.]+)*")
_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_RANGE: Final = re.compile(r"\s*(\d+)-(\d+)\s*")
_OPEN_RANGE: Final = re.compile(r"\s*(-\d+|\d+-)\s*")
_PYTHON: Final = re.compile(r"(?:py(?:thon)?(3)\.?|(3)\.)(\d+)t?")
_SELECTING_OPTIONS: Final = frozenset({"sessions", "keywords", "tags", "pythons"})


@dataclass(frozen=True, slots=True)
class Environments:
    """What a plain call runs.

    Attributes:
        tests: names of environments or sessions, in their order.
        others: those that are named as no tests, such as `lint`.
        pythons: versions that `tests` name, such as "3.12".
    """

    tests: tuple[str, ...]
    others: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()


def read_environments(tool: str, texts: Mapping[str, str], folder: str = "") -> Environments:
    """The environments that tox runs, or the sessions of nox, where none is selected.

    Args:
        tool: "tox" or "nox".
        texts: content of its `FILES` by name.
        folder: where they are, for errors: "" or with "/" at its end.

    Raises:
        NotMovable: they are computed, none is a test, or no file configures the tool.
    """
    found = _read_tox(texts, folder) if tool == "tox" else _read_nox(texts, folder)
    if not found.tests:
        others = ", ".join(found.others) or "none"
        what = f"no environment of {tool} runs tests: {others}"
        raise _refusal(what, folder or "./", tool)
    return found


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
    versions = sorted({int(found[3]) for found in factors if found})
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
        if found := re.search(r"(?m)^\s*[\"']?env_?list\b", texts[name]):
            where += f":{texts[name].count(chr(10), 0, found.end()) + 1}"
        listed = settings.get("env_list", settings.get("envlist", DEFAULT_ENVIRONMENT))
        return _partition(_tox_names(listed, where), where, "tox")
    what = f"no configuration of tox: {', '.join(FILES['tox'])}"
    raise _refusal(what, folder or "./", "tox")


def _tox_settings(name: str, text: str) -> dict[str, Any] | None:
    """The settings of tox, and the names of other sections; None where the file has none."""
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
    own = dict(parser[section]) if section in parser else {}
    return {**dict.fromkeys(parser.sections(), ""), **own}


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
        choices.append([one for text in texts for one in _range(text, where)] or [part])
    if math.prod(map(len, choices)) > MAX_JOBS:
        raise _too_many(where)
    return map("".join, itertools.product(*choices))


def _range(text: str, where: str) -> list[str]:
    if _OPEN_RANGE.fullmatch(text):
        what = f"environments are computed: {{{text}}} depends on the version of tox"
        raise _refusal(what, where, "tox")
    found = _RANGE.fullmatch(text)
    if found is None:
        return [text]
    first, last = int(found[1]), int(found[2])
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
        names: of its sessions, one for each Python of a list.
        problem: why `names` cannot be read.
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
        chosen = [one for one in sessions if one.is_default]
    else:
        chosen = []
        for wanted in selected:
            found = [one for one in sessions if wanted in (one.name, *one.names)]
            if not found:
                raise _refusal(f"no literal session is called {wanted!r:.60}", where, "nox")
            chosen += [
                one if one.name == wanted else replace(one, names=(wanted,)) for one in found
            ]
    for one in chosen:
        if one.problem and not is_other_environment(one.name):
            what = f"--into needs literal sessions: {one.problem}"
            raise _refusal(what, f"{where}:{one.line}", "nox")
    return _partition([name for one in chosen for name in one.names or (one.name,)], where, "nox")


class _ComputedError(Exception):
    """Something is no literal."""

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
    """`session` of `session`, `nox.session` and `nox.session(...)`."""
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
    given = {word.arg: word.value for word in call.keywords} if call else {}
    name = _literal(given["name"], constants) if "name" in given else function.name
    if not isinstance(name, str):
        raise _ComputedError("the name of a session is computed", given["name"])
    is_default = "default" not in given or _literal(given["default"], constants) is not False
    made = _Session(name, decorator.lineno, is_default=is_default)
    for other in function.decorator_list:
        if _last_name(other) == "parametrize":
            return replace(made, line=other.lineno, problem="one has @nox.parametrize")
    if not is_top or None in given or (call and call.args):
        return replace(made, problem="one is made by code")
    python = given.get("python", given.get("py"))
    try:
        pythons = _literal(python, constants) if python else None
    except _ComputedError as error:
        return replace(made, line=error.line, problem="its Pythons are computed")
    if isinstance(pythons, (list, tuple)) and all(isinstance(one, str) for one in pythons):
        return replace(made, names=tuple(f"{name}-{one}" for one in pythons))
    is_single = isinstance(pythons, str) or not pythons
    return replace(made, names=(name,), problem="" if is_single else "its Pythons are computed")


def _selected_sessions(tree: ast.Module, constants: Mapping[str, ast.expr]) -> Sequence[str] | None:
    """`nox.options.sessions`; None where the file does not set it."""
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
    """What the file binds once, at its top: any other binding of the name may come first."""
    stored = Counter(
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        target: ast.expr | None = None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and value is not None and stored[target.id] == 1:
            found[target.id] = value
    return found


def _literal(node: ast.expr, constants: Mapping[str, ast.expr]) -> Any:
    value = constants.get(node.id, node) if isinstance(node, ast.Name) else node
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        raise _ComputedError(f"not literal: {ast.unparse(node):.60}", node) from error
