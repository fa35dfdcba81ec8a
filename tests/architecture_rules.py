"""Rules of the architecture: functions from one module's source to complaints.

`test_architecture.py` runs each over the whole program and over snippets that break it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from architecture_tables import (
    ADAPTED,
    ADAPTERS,
    ALLOWED,
    COMMANDS,
    IMPURE,
    LEG,
    PURE,
    PURE_OF_RUN,
    VERBS,
)

ROOT = Path(__file__).parent.parent

FRAMEWORK_WORD = re.compile("py" + "test", re.IGNORECASE)
MODULE_LINES = 700
FUNCTION_LINES = 80


@dataclass(frozen=True, slots=True)
class Source:
    """One module: its dotted name without the leading `ciguard.`, and its text."""

    name: str
    text: str

    @property
    def place(self) -> str:
        return self.name.split(".")[0]

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        return nodes_of(self.text)

    def is_command(self) -> bool:
        return self.name.split(".")[1:] == ["command"] or self.name in COMMANDS

    def is_inside(self) -> bool:
        return self.name.startswith("run.plugins.") and not self.name.endswith("__init__")


@cache
def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """All nodes of a module, in the order of `ast.walk`: each rule reads them."""
    return tuple(ast.walk(ast.parse(text)))


def program() -> list[Source]:
    """Every module of the package, by name."""
    folder = ROOT / "ciguard"
    files = [path.relative_to(folder) for path in sorted(folder.rglob("*.py"))]
    return [
        Source(".".join(p.with_suffix("").parts), (folder / p).read_text("utf-8")) for p in files
    ]


@cache
def imported(source: Source) -> tuple[str, ...]:
    """Dotted names, a relative one with its dot; `from a import b` is `a.b`, module or not."""
    names: list[str] = []
    for node in source.nodes:
        if isinstance(node, ast.Import):
            names.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            names.extend(f"{start}.{alias.name}" for alias in node.names)
    return tuple(names)


def internal(source: Source) -> Iterator[str]:
    """Imports of our own modules, without the leading `ciguard.`."""
    return (
        name.removeprefix("ciguard.") for name in imported(source) if name.startswith("ciguard.")
    )


def external(source: Source) -> Iterator[str]:
    """First parts of the imports that are not ours."""
    return (name.split(".")[0] for name in imported(source) if not name.startswith("ciguard."))


def within(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(place + ".") for place in places)


class _OnlyElse(ast.NodeTransformer):
    def visit_If(self, node: ast.If) -> list[ast.stmt] | ast.If:
        return node.orelse if ast.unparse(node.test) == "TYPE_CHECKING" else node


def as_it_runs(source: Source) -> Source:
    """The module without what type checkers alone read."""
    tree = ast.fix_missing_locations(_OnlyElse().visit(ast.parse(source.text)))
    return Source(source.name, ast.unparse(tree))


def calls(source: Source) -> Iterator[str]:
    """Dotted texts of what is called: `sys.exit`, `print`."""
    return (ast.unparse(node.func) for node in source.nodes if isinstance(node, ast.Call))


def imports_only_what_its_place_allows(source: Source) -> Iterator[str]:
    if source.is_inside():
        return
    folder = source.name.rpartition(".")[0]
    allowed = (
        ALLOWED.get(source.name)
        or ALLOWED.get(folder if "." in folder else "")
        or (source.place, *ALLOWED.get(source.place, ()))
    )
    if source.is_command():
        allowed += ADAPTED
    if source.place not in ALLOWED:
        yield f"{source.name}: nobody decided what `{source.place}` may import"
    for name in internal(source):
        if not within(name, allowed):
            yield f"{source.name} imports ciguard.{name}"
    yield from (f"{source.name}: relative import" for name in imported(source) if name[0] == ".")


def leaves_commands_to_the_command_line(source: Source) -> Iterator[str]:
    for name in internal(source):
        command = within(name, tuple(COMMANDS)) or name.split(".")[1:2] == ["command"]
        if command and source.place != "cli" and source.name not in COMMANDS:
            yield f"{source.name} imports ciguard.{name}: a command is no library"


def keeps_arithmetic_pure(source: Source) -> Iterator[str]:
    arithmetic = source.place in VERBS and not source.is_command() and source.name not in ADAPTERS
    pure = arithmetic or source.place in PURE or source.name in PURE
    if not pure and not within(source.name, PURE_OF_RUN):
        return
    for name in external(source):
        if name in IMPURE:
            yield f"{source.name} imports {name}"


def needs_nothing_installed_in_a_leg(source: Source) -> Iterator[str]:
    if (source.place not in {"model", "run"} and source.name not in LEG) or source.is_command():
        return  # run.command is the door from `ciguard run`: it stays out of the zip file
    guests = set()
    if source.is_inside():
        source = as_it_runs(source)
        guests = {"py" + "test", "_py" + "test", "xdist", "coverage"}
        guests |= {path.stem for path in (ROOT / "ciguard/run/plugins").glob("ciguard_*.py")}
    for name in external(source):
        if name not in sys.stdlib_module_names and name not in guests:
            yield f"{source.name} imports {name}"
    if source.is_inside():
        yield from (f"{source.name} imports ciguard.{name}" for name in internal(source))


def reads_the_environment_at_the_edge(source: Source) -> Iterator[str]:
    if source.place in {"cli", "config", "run"}:
        return
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.environ", "os.getenv"}:
            yield f"{source.name}:{node.lineno} reads {ast.unparse(node)}"
    yield from (
        f"{source.name} imports {name}"
        for name in imported(source)
        if name in {"os.environ", "os.getenv"}
    )


def prints_through_the_console(source: Source) -> Iterator[str]:
    if source.place in {"console", "run"} or source.name == "sources.local":
        return  # sources.local: `-` is stdout, for the answer's bytes
    talk = re.compile(r"(print|click\.s?echo|sys\.(stdout|stderr)(\.buffer)?\.write)$")
    yield from (f"{source.name} calls {name}" for name in calls(source) if talk.match(name))


def exits_in_one_place(source: Source) -> Iterator[str]:
    if source.place in {"cli", "run"}:
        return
    leave = re.compile(r"(exit|quit|sys\.exit|os\._exit|SystemExit|(ctx|context)\.exit)$")
    yield from (f"{source.name} calls {name}" for name in calls(source) if leave.match(name))


def names_no_framework(source: Source) -> Iterator[str]:
    if source.name == "run.frameworks.py" + "test" or source.name.startswith("run.plugins."):
        return
    # The tables of all that runs tests, and of what each lists, selects, retries and leaves.
    if source.name in ("workflow.test_commands", "codec.tool_listings", "init.coverage_gates"):
        return
    if source.name in (
        "audit.rules.retries_hide_flaky_tests",
        "audit.rules.results_only_on_success",
    ):
        return
    if source.name.startswith("audit.filters."):
        return
    for number, line in enumerate(source.text.splitlines(), 1):
        if FRAMEWORK_WORD.search(line):
            yield f"{source.name}:{number} names a framework: {line.strip()}"


def stays_small(source: Source) -> Iterator[str]:
    lines = len(source.text.splitlines())
    if lines > MODULE_LINES:
        yield f"{source.name}: {lines} lines"
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield f"{source.name}.{node.name}: {length} lines"


SENTENCE_WORDS = 5
CUTTING = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "index", "find"}


def _is_sentence(node: ast.expr) -> bool:
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and len(text.split()) >= SENTENCE_WORDS


def compares_no_sentence(source: Source) -> Iterator[str]:
    """What a program decides by is a value: words are made of it, and never read back."""
    for node in source.nodes:
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            operands = node.args if node.func.attr in CUTTING else []
        else:
            continue
        for operand in operands:
            if _is_sentence(operand):
                yield f"{source.name}:{node.lineno} compares {ast.unparse(operand)}"


# Folders whose values hold no sentence, and the modules that put values into words.
WORDLESS = {"guard"}
WORDING = {"command", "headline", "view", "wording"}
STORED_WORDS = 4
ERROR_ARGUMENTS = {"what", "where", "fix"}  # as errors call them, and who raises one


def _phrase(node: ast.AST) -> str:
    """The text of a constant or an f-string, its values left out; "" of another node."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_phrase, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_for_people_or_patterns(node: ast.AST) -> bool:
    """Say whether its texts are an error's, an option's, a docstring's, or what is looked for."""
    if isinstance(node, ast.Assign):
        return {ast.unparse(target) for target in node.targets} <= ERROR_ARGUMENTS
    if isinstance(node, ast.Call):
        return re.search(r"(Error|compile|click\.option)$", ast.unparse(node.func)) is not None
    return isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and bool(_phrase(node.value)))


def _stored_phrases(node: ast.AST) -> Iterator[tuple[int, str]]:
    if _is_for_people_or_patterns(node):
        return
    if phrase := _phrase(node):
        yield getattr(node, "lineno", 0), phrase
        return
    for child in ast.iter_child_nodes(node):
        yield from _stored_phrases(child)


def stores_no_sentence(source: Source) -> Iterator[str]:
    """A value holds kinds, names and numbers; one module of a verb makes words of them."""
    if source.place not in WORDLESS or source.name.rpartition(".")[2] in WORDING:
        return
    for line, phrase in _stored_phrases(source.nodes[0]):
        words = [word for word in phrase.split() if re.search(r"[a-zA-Z]", word)]
        if len(words) >= STORED_WORDS:
            yield f"{source.name}:{line} stores {phrase!r}"


def _documented_names(docstring: str) -> Iterator[str]:
    """The names below `Args:`, of its first indentation."""
    indent = None
    inside = False
    for line in docstring.splitlines():
        text = line.lstrip()
        if text in ("Args:", "Attributes:"):
            inside, indent = True, None
        elif text and not line.startswith(" "):
            inside = False
        elif inside and text:
            indent = indent or len(line) - len(text)
            if len(line) - len(text) == indent:
                yield from (name.strip(" *`") for name in text.partition(":")[0].split(","))


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    args = node.args
    for one in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if one is not None:
            yield one.arg


def documents_its_own_arguments(source: Source) -> Iterator[str]:
    """`Args:` names parameters; of a class that inherits, the fields may be another's."""
    for node in source.nodes:
        names: set[str] = set()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names.update(_parameters(node))
        elif isinstance(node, ast.ClassDef) and not node.bases:
            for item in node.body:
                if isinstance(item, ast.AnnAssign):
                    names.add(ast.unparse(item.target))
                elif isinstance(item, ast.FunctionDef):
                    names.update((item.name, *_parameters(item)))
            written = (item for item in ast.walk(node) if isinstance(item, ast.Attribute))
            names.update(item.attr for item in written if isinstance(item.ctx, ast.Store))
        else:
            continue
        for name in _documented_names(ast.get_docstring(node) or ""):
            if name.isidentifier() and name not in names:
                yield f"{source.name}:{node.lineno} documents {name!r}, which {node.name} has not"
