"""The table finds each row, and each spells ids as the planner needs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.errors import UsageError
from ciguard.model import Suite, Variant
from ciguard.run import frameworks
from ciguard.run.frameworks.base import Framework, Invocation, ProcessFiles, environment
from ciguard.run.frameworks.command import COMMAND
from ciguard.run.frameworks.registry import DEFAULT, FRAMEWORKS, framework
from ciguard.run.plugin_files import extract_plugins


def batch() -> ProcessFiles:
    return ProcessFiles(
        units_file="/p/units.json",
        tries_file="/p/tries.json",
        lines_file="/p/units.txt",
        record_file="/r/process-001.jsonl",
        stop_file="/p/stop",
        stacks_file="/p/stacks",
        inside_folder="/p/inside",
        suite="s",
        variant="v",
        process=1,
        origin_s=12.5,
    )


def test_registry_has_every_adapter() -> None:
    assert list(FRAMEWORKS) == sorted(FRAMEWORKS)
    assert [name for name, row in FRAMEWORKS.items() if row.is_default] == [DEFAULT] == ["pytest"]
    assert framework("command") is COMMAND


def test_unknown_framework_error_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        framework("abacus", where="suite x")
    there = ", ".join(FRAMEWORKS)
    assert str(caught.value) == f"suite x: no framework 'abacus'\n  fix: there are {there}"


@pytest.mark.parametrize("adapter", FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_ancestors_go_from_nearest_to_root(adapter: Framework) -> None:
    for unit in ("a/b.py::C::d[x/y::z]", "plain", "", "::", "a//b[[", "Name.Space.Class.Method"):
        ancestors = adapter.ancestors(unit)
        assert ancestors[-1] == ""
        assert ancestors.count("") == 1
        named = [name.rstrip("/") for name in ancestors[:-1]]
        assert all(unit.startswith(name) for name in named)
        assert named == sorted(named, key=len, reverse=True)


def test_later_environment_source_overrides_earlier_ones() -> None:
    suite = Suite(
        "x", (), env={"A": "suite", "B": "suite"}, variants={"v": Variant(env={"B": "v"})}
    )
    inherited = {"A": "own", "C": "own", "CIGUARD_TAKEN_BY": "1", "PYTHONPATH": "old", "D": "own"}
    invocation = Invocation((), {"D": "leg"}, {"PYTHONPATH": "/inside", "NODE_PATH": "/inside"})
    assert environment(inherited, suite, "v", invocation, {"A": "pool", "C": "pool"}) == {
        "A": "suite",
        "B": "v",
        "C": "pool",
        "D": "leg",
        "PYTHONPATH": "/inside:old",
        "NODE_PATH": "/inside",
    }
    assert environment({}, suite, "unheard-of", Invocation(()))["B"] == "suite"


def test_only_plugin_modules_are_extracted(tmp_path: Path) -> None:
    folder = Path(extract_plugins(str(tmp_path / "inside")))
    source = Path(frameworks.__file__).parent.parent / "plugins"
    names = {path.name for path in folder.iterdir()}
    kinds = (".py", ".cjs", ".mjs", ".rb", ".jar", ".cs")
    assert names == {p.name for p in source.iterdir() if p.suffix in kinds} - {"__init__.py"}
    for name in names:
        assert (folder / name).read_bytes() == (source / name).read_bytes()


@pytest.mark.parametrize("name", FRAMEWORKS)
@given(st.text(st.sampled_from("ab/.:[]() \ud800"), min_size=1))
def test_every_ancestor_is_a_prefix_of_the_unit_id(name: str, unit: str) -> None:
    names = FRAMEWORKS[name].ancestors(unit)
    assert all(unit.startswith(group) for group in names)
    assert names[-1] == ""
