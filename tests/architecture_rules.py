"""Rules of the architecture: functions from one module's source to complaints.

`test_architecture.py` runs each over the whole program and over snippets that break it.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent

# What the arithmetic of every verb may import.
SHARED = (
    *("__version__", "document", "errors", "model", "codec", "sources.references", "text"),
    "declared_memory",
    *("run.policy", "run.frameworks", "run.plugin_files"),
    *(
        "history.file",
        "history.metric_series",
        "history.runs",
        "history.query",
        "links",
        "logs",
        "machine_view",
        "variant_groups",
    ),
)
# The arithmetic of a leg, which the planner simulates.
PURE_OF_RUN = ("run.policy",)
# What a command may import besides.
ADAPTED = (
    *(
        "config",
        "config_mistakes",
        "config_sections",
        "config_values",
        "suites_and_pools",
        "console",
        "github",
        "history",
        "invocation",
        "sources",
    ),
    *("init.generated_files", "init.repository", "render", "template_loader", "git"),
    *("compare.ancestry", "guard.policy", "guard.log_patterns", "guard.run_context"),
    "workflow",
)

# By first folder or file below ciguard/, whose own folder is always allowed to itself; or by the
# name of one module of it, of which that rule is then the whole one.
ALLOWED: dict[str, tuple[str, ...]] = {
    "__init__": (),
    "__main__": ("cli",),
    "errors": (),
    "model": ("errors",),
    "codec": ("errors", "model"),
    "run": ("__version__", "errors", "model", "text", "codec.record.lines", "codec.plan_file"),
    "run.policy": ("errors", "model", "text", "run.policy"),
    "sources": (
        *("codec", "console", "errors", "github", "invocation", "model", "git.checkout", "text"),
        "logs",
    ),
    "sources.local": ("errors", "model", "codec", "logs.process_logs"),
    "sources.references": ("errors", "github.repository_ref"),
    "init.repository": ("errors", "git.commands"),
    "init.generated_files": (
        *(
            "actions_address",
            "config",
            "config_sections",
            "errors",
            "sources.local",
            "git.commands",
            "github.repository_ref",
            "template_loader",
        ),
        *("run.frameworks", "init.checksum", "init.project", "init.repository"),
        *("init.workflow_files", "init.other_tools", "init.language_suites"),
    ),
    "template_loader": ("text",),
    "mermaid": (),
    "document": ("text",),
    "links": ("model",),
    "logs": ("errors", "model"),
    "machine_view": ("document", "links", "model", "run.policy.guard_rail", "text"),
    "variant_groups": ("document", "links", "model", "text"),
    "render": ("document", "template_loader", "text"),
    "text": ("model",),
    "invocation": ("config",),
    "console": ("errors", "text"),
    "workflow": ("errors",),
    "workflow.job_templates": ("template_loader", "workflow"),
    "actions_address": ("config", "errors", "github.repository_ref"),
    "config": (
        *("config_mistakes", "config_sections", "config_values", "errors", "logs", "model"),
        "run.frameworks",
    ),
    "config_sections": ("config_values", "model", "run.frameworks"),
    "config_mistakes": (),
    "config_values": ("declared_memory", "model"),
    "declared_memory": (),
    "suites_and_pools": (
        *("config", "errors", "model", "codec", "run.frameworks", "workflow.matrix"),
        *("config_sections", "declared_memory"),
    ),
    "cli": ("__version__", "errors", "console", "invocation"),
    "git": ("errors",),
    "compare.ancestry": ("compare.baseline_selection", "errors"),
    "guard.policy": (
        *("codec", "config", "errors", "sources.local", "github", "invocation", "model"),
        "config_sections",
        *("history.file", "history.query", "guard.verdict", "guard.run_context"),
    ),
    "guard.run_context": ("config", "console", "github.events", "invocation", "sources"),
    "guard.evaluation": (
        *("codec", "console", "errors", "github", "invocation", "model", "guard", "sources"),
        *("history.stores", "history.file", "suites_and_pools", "text"),
    ),
    "github": ("__version__", "errors", "model", "codec"),
    "plan": (*SHARED, "mermaid"),
    "plan.history_inputs": (*SHARED, "plan", "history", "sources.local"),
    "plan.scope": (
        *(*SHARED, "plan", "sources.local", "config", "invocation", "suites_and_pools"),
        "workflow.matrix",
    ),
    "guard": SHARED,
    "compare": SHARED,
    "compare.log_inputs": (
        *(*SHARED, "compare.log_comparison", "compare.log_progress", "sources.local"),
        *("sources.job_logs", "sources.record_finder", "sources.references"),
    ),
    "experiment": (*SHARED, "compare.statistics"),
    # Composes: reads a comparison, runs its suspects, and writes what that confirms.
    "experiment.commits": (
        *(*SHARED, "experiment", "compare.comparison", "compare.confirmation", "compare.json"),
        "compare.headline",
    ),
    "history": (*SHARED, "sources.local", "git.commands"),
    "init": (
        *(*SHARED, "template_loader", "plan.outputs", "workflow.job_templates", "workflow.rewrite"),
        "actions_address",
    ),
    "init.tool_environments": ("errors", "workflow"),
    "init.job_framework": ("config", "init", "run.frameworks", "workflow"),
    "init.move_in": (
        "actions_address",
        *("config", "console", "errors", "github.repository_ref", "init", "run.frameworks"),
        *("sources.local", "template_loader", "workflow"),
    ),
    # It refuses filters that the job which it adds could not read.
    "init.guard_results": (
        *("actions_address", "audit"),
        *("codec", "config", "console", "errors", "init", "model", "sources.local"),
        *("template_loader", "workflow"),
    ),
    "doctor": (*SHARED, "run.platforms", "plan.collection", "plan.outputs", "workflow"),
    "export": (*SHARED, "guard"),
    "audit": (*SHARED, "workflow", "guard.diagnosis", "guard.log_patterns"),
    # Composes: the plan of a matrix as it is.
    "audit.fixed_plan": (*SHARED, "audit", "plan.fixed_shards"),
    "audit.matrix_plan": (*SHARED, "audit", "config", "plan", "suites_and_pools", "history"),
    "audit.proposal": (*SHARED, "audit", "plan.cost", "workflow.guard_job"),
    # What `init` would write.
    "audit.next_change": (
        *("actions_address", "audit", "config", "errors", "sources.local", "workflow"),
    ),
    "audit.output_formats": ("document", "render"),
    "audit.matrix_command": (*SHARED, "audit", "workflow", "plan"),
    "audit.repository_reader": (
        *(*SHARED, "audit", "github", "sources.artifacts", "workflow.yaml_values"),
    ),
    "report": (*SHARED, "github", "mermaid", "render", "guard", "compare"),
    "report.judging": (*SHARED, "compare", "config", "github", "guard", "report", "sources"),
    "report.remote_run": (*SHARED, "config", "github", "guard", "report", "sources"),
    "report.publish": (*SHARED, "github", "guard", "render", "report", "sources.inputs"),
    # Composes all, for an organisation.
    "serve": (
        *(*SHARED, "config", "github", "guard", "compare", "history", "render", "report"),
        *("console", "invocation", "sources", "template_loader"),
    ),
    "serve.state": ("errors", "serve.state"),
}
VERBS = (
    "plan",
    "guard",
    "compare",
    "experiment",
    "history",
    "init",
    "doctor",
    "report",
    "export",
    "audit",
)

# What travels in the pyz besides run/: see DESIGN, "Nothing to install in a leg".
LEG = ("errors", "text", "codec.__init__", "codec.record.lines", "codec.plan_file")

# The modules of a verb's folder that read and write: everything else in it is arithmetic.
ADAPTERS = frozenset(
    {"history.stores", "history.branch_store", "plan.collection"}
    | {"history.daemon_thread", "history.service_credentials", "history.service_store"}
    | {"plan.history_inputs", "plan.scope"}
    | {
        "experiment.machine_load",
        "experiment.process",
        "guard.policy",
        "guard.evaluation",
        "compare.ancestry",
    }
    | {"compare.log_inputs"}
    | {"init.generated_files", "init.guard_results", "init.move_in", "init.repository"}
    | {"audit.next_change", "audit.repository_reader"}
)

PURE = frozenset(
    {"codec", "document", "links", "logs", "model", "errors", "sources.references", "text"}
    | {"config_mistakes", "declared_memory"}
)
# A command that is not `command.py`: these verbs have two halves.
COMMANDS = frozenset(
    {"experiment.command", "experiment.commits", "audit.command", "audit.matrix_command"}
    | {"audit.repository_command"}
)

IMPURE = frozenset(
    {"os", "pathlib", "time", "random", "logging", "subprocess", "socket", "httpx"}
    | {"shutil", "tempfile", "threading"}
)

FRAMEWORK_WORD = re.compile("py" + "test", re.IGNORECASE)
MODULE_LINES = 500
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
    def tree(self) -> ast.Module:
        return parsed(self.text)

    def is_command(self) -> bool:
        return self.name.split(".")[1:] == ["command"] or self.name in COMMANDS

    def is_inside(self) -> bool:
        return self.name.startswith("run.plugins.") and not self.name.endswith("__init__")


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def program() -> list[Source]:
    """Every module of the package, by name."""
    folder = ROOT / "ciguard"
    files = [path.relative_to(folder) for path in sorted(folder.rglob("*.py"))]
    return [
        Source(".".join(p.with_suffix("").parts), (folder / p).read_text("utf-8")) for p in files
    ]


def imported(source: Source) -> Iterator[str]:
    """Dotted names, a relative one with its dot; `from a import b` is `a.b`, whatever b is."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            yield from (f"{start}.{alias.name}" for alias in node.names)


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
    return (ast.unparse(node.func) for node in ast.walk(source.tree) if isinstance(node, ast.Call))


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
    for node in ast.walk(source.tree):
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
    if source.name in ("workflow.test_commands", "codec.tool_listings"):
        return
    if source.name in (
        *("audit.rules.retry_patterns", "audit.rules.upload_actions", "workflow.result_words"),
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
    for node in ast.walk(source.tree):
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
    for node in ast.walk(source.tree):
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
WORDING = {"command", "view", "wording", "verdict_headline"}
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
    for line, phrase in _stored_phrases(source.tree):
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
    for node in ast.walk(source.tree):
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
