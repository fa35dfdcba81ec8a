"""Who may import whom, who may touch the outside world, and how large a file may grow.

Each rule is a function from one module's source to complaints. It is run over the whole program
and, so that no rule can rot into one that never complains, over a snippet that breaks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from architecture_rules import (
    FUNCTION_LINES,
    MODULE_LINES,
    ROOT,
    Source,
    compares_no_sentence,
    documents_its_own_arguments,
    exits_in_one_place,
    imports_only_what_its_place_allows,
    internal,
    keeps_arithmetic_pure,
    leaves_commands_to_the_command_line,
    names_no_framework,
    needs_nothing_installed_in_a_leg,
    prints_through_the_console,
    program,
    reads_the_environment_at_the_edge,
    stays_small,
    stores_no_sentence,
)
from architecture_tables import ADAPTERS, ALLOWED, COMMANDS, LEG

TYPES = "if TYPE_CHECKING:\n"
DOCUMENTED = 'def pack(units):\n    """Pack.\n\n    Args:\n        {}\n    """'
# Of each rule, modules that break it and modules that do not.
Examples = list[tuple[str, str]]
EXAMPLES: dict[Callable[[Source], Iterator[str]], tuple[Examples, Examples]] = {
    imports_only_what_its_place_allows: (
        [
            ("plan.packing", "from ciguard.compare import measure_changes"),
            ("plan.packing", "import ciguard.compare.measure_changes"),
            ("plan.packing", "from . import estimates"),
            ("plan.packing", "from ciguard.run import supervisor"),
            ("compare.measure_changes", "from ciguard.guard import prove"),
            ("run.supervisor", "from ciguard.codec.results import junit"),
            ("experiment.commit_test", "from ciguard.compare.comparison import Comparison"),
            ("newcomer.thing", "x = 1"),
        ],
        [
            ("plan.command", "from ciguard.config.file import Invocation"),
            ("plan.packing", "from ciguard.run.policy.rules import next_action"),
            ("report.view", "from ciguard.guard import prove"),
        ],
    ),
    leaves_commands_to_the_command_line: (
        [
            ("report.command", "from ciguard.guard.command import command"),
            ("plan.packing", "from ciguard.guard import command"),
        ],
        [("plan.command", "from ciguard.github import events")],
    ),
    keeps_arithmetic_pure: (
        [
            ("guard.prove", "def now():\n    import time\n    return time.time()"),
            ("run.policy", "from time import monotonic"),
            ("codec.record.lines", "from pathlib import Path"),
        ],
        [("plan.command", "import pathlib"), ("run.supervisor", "import subprocess")],
    ),
    needs_nothing_installed_in_a_leg: (
        [
            ("run.supervisor", "import psutil"),
            ("codec.plan_file", "import pydantic"),
            ("run.plugins.ciguard_x", "import ciguard.model"),
            ("run.plugins.ciguard_x", TYPES + "    import os\nelse:\n    import ciguard.run.y"),
        ],
        [
            ("run.plugins.ciguard_x", "import py" + "test"),
            ("run.plugins.ciguard_x", "import ciguard_memory"),
            ("run.plugins.ciguard_x", TYPES + "    import ciguard.model"),
        ],
    ),
    reads_the_environment_at_the_edge: (
        [
            ("github.client", "import os\nTOKEN = os.environ['T']"),
            ("plan.command", "from os import environ"),
        ],
        [],
    ),
    prints_through_the_console: (
        [("plan.command", "print('done')"), ("plan.command", "import sys\nsys.stderr.write('x')")],
        [("run.__main__", "print('x')")],
    ),
    exits_in_one_place: (
        [("plan.command", "import sys\nsys.exit(13)"), ("plan.command", "raise SystemExit(2)")],
        [],
    ),
    names_no_framework: ([("plan.inventory", "# as Py" + "test collects them")], []),
    compares_no_sentence: (
        [
            ("guard.view", "a = what == 'no shard has a record of it'"),
            ("guard.view", "a = what.startswith('no shard has a record')"),
        ],
        [("guard.view", "a = what == 'passed'")],
    ),
    stores_no_sentence: (
        [
            ("guard.prove", "a = f'shard {x}: it has no record'"),
            ("guard.prove", "def f():\n    yield Missing(x, 'its shard has no record')"),
        ],
        [
            ("guard.prove", '"""What a run comes to, as a value."""'),
            ("guard.prove", "raise InputError('no file is called so', where=x)"),
            ("guard.prove", "fix = 'name the folder of the records'"),
            ("guard.wording", "a = 'its shard has no record'"),
        ],
    ),
    documents_its_own_arguments: (
        [("plan.packing", DOCUMENTED.format("items: what to pack."))],
        [("plan.packing", DOCUMENTED.format("units: all,\n            x: y."))],
    ),
    stays_small: (
        [
            ("plan.packing", "def long():\n" + "    x = 1\n" * FUNCTION_LINES),
            ("plan.packing", "x = 1\n" * (MODULE_LINES + 1)),
        ],
        [("plan.packing", "x = 1\n" * MODULE_LINES)],
    ),
}


@pytest.mark.parametrize("rule", EXAMPLES, ids=lambda rule: rule.__name__)
def test_program_follows_the_rule(rule: Callable[[Source], Iterator[str]]) -> None:
    complaints = [complaint for source in program() for complaint in rule(source)]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("rule", EXAMPLES, ids=lambda rule: rule.__name__)
def test_rule_detects_each_violation_and_accepts_the_rest(
    rule: Callable[[Source], Iterator[str]],
) -> None:
    broken, fine = EXAMPLES[rule]
    assert [text for name, text in broken if not list(rule(Source(name, text)))] == []
    assert [text for name, text in fine if list(rule(Source(name, text)))] == []


def test_the_exceptions_still_exist() -> None:
    """An exception for a file that is gone would hide the next file of that name."""
    names = {source.name for source in program()}
    assert names >= ADAPTERS | COMMANDS
    assert names >= set(LEG)
    assert set(ALLOWED) >= {name.split(".")[0] for name in names}


def circles(sources: list[Source]) -> list[list[str]]:
    """Groups of modules that import one another, by whatever way round; types count."""
    names = {source.name.removesuffix(".__init__") for source in sources}
    imports = {
        source.name.removesuffix(".__init__"): {
            place
            for name in internal(source)
            for place in (name, name.rpartition(".")[0])
            if place in names
        }
        for source in sources
    }
    # Whoever imports nothing that is left is in no circle, and nobody whom only those import.
    left = dict(imports)
    while ends := [name for name, needs in left.items() if not (needs & left.keys()) - {name}]:
        for name in ends:
            del left[name]
    while starts := left.keys() - set().union(*(needs for needs in left.values())):
        for name in starts:
            del left[name]
    return [sorted(left)] if left else []


def test_no_import_cycles() -> None:
    assert circles([one for one in program() if one.place != "run"]) == []


def folder_of(name: str) -> str:
    """Its folder; below `run` the subfolder, as `run_memory`; a contract `base` stands alone."""
    parts = name.removesuffix(".__init__").split(".")
    if parts[0] != "run" or len(parts) == 1:
        return parts[0]
    folders = {path.name for path in (ROOT / "ciguard/run").iterdir() if path.is_dir()}
    if parts[1] not in folders:
        return "run"
    return "_".join(parts[:3] if parts[2:] == ["base"] else parts[:2])


def folders(sources: list[Source]) -> list[Source]:
    """The program as if each folder were one module."""
    names = {source.name.removesuffix(".__init__") for source in sources}
    texts: dict[str, list[str]] = {}
    for source in sources:
        own = folder_of(source.name)
        lines = texts.setdefault(own, [])
        for name in internal(source):
            module = name if name in names else name.rpartition(".")[0] or name
            if (folder := folder_of(module)) != own:
                lines.append(f"import ciguard.{folder}")
    return [Source(name, "\n".join(lines)) for name, lines in texts.items()]


def test_no_folder_cycles() -> None:
    assert circles(folders(program())) == []


def test_folder_cycle_is_detected() -> None:
    pairs = (
        ("plan.a", "guard.x"),
        ("guard.y", "plan.b"),
        ("guard.x", "model"),
        ("plan.b", "model"),
    )
    modules = [Source(own, f"import ciguard.{other}") for own, other in pairs]
    assert circles(folders([*modules, Source("model", "")])) == [["guard", "plan"]]


def test_import_cycle_is_detected() -> None:
    types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ciguard.{} import x"
    ring = [Source(a, types.format(b)) for a, b in (("a.x", "a.y"), ("a.y", "b"), ("b", "a.x"))]
    more = Source("c", "from ciguard.a.x import y"), Source("d", "")
    assert circles([*ring, *more]) == [["a.x", "a.y", "b"]]
    assert circles([*ring[:2], *more]) == []
