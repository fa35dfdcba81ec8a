"""Which tests of a pull request are new or changed, and what its plan says about their repeats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from conftest import Ciguard
from guard.test_effective_policy import PolicyCheckout
from history.git_servers import environment, git

from ciguard.git.checkout import ChangedFile, Checkout
from ciguard.plan.new_tests import MAX_BYTES, compare_functions, read_diff

A, B = "def test_a(): f(1)\n", "def test_b(x): g(x)\n"
CLASS = "class TestC:\n    def test_c(self): h()\n"
TWO = "@mark(1)\n@mark(2)\nasync def test_a(): pass\n"
LATER = "if WINDOWS:\n    try: x\n    except E:\n        def test_a(): f(1)\n"


def change(before: dict[str, str], after: dict[str, str], unit: str, on_base: bool) -> str:
    """The change of a unit; a file "new<old" was renamed. A text is its own id."""
    changed, gone = [], dict(before)
    for name, text in after.items():
        path, _, old_path = name.partition("<")
        changed.append(ChangedFile(path, gone.pop(old_path or path, ""), text, old_path))
    test_files = {file.path for file in changed}
    changed += [ChangedFile(path, text, "") for path, text in gone.items()]
    diff = read_diff(changed, test_files, lambda ids: {each: each.encode() for each in ids})
    return diff.change(unit.partition("::")[0], unit, on_base=on_base)


@pytest.mark.parametrize(
    ("before", "after", "unit", "on_base", "expected"),
    [
        ({"a.py": A}, {"a.py": A + B}, "a.py::test_a", True, ""),
        ({"a.py": A}, {"a.py": A + B}, "a.py::test_b[1]", False, "new"),
        ({"a.py": A}, {"a.py": "import x\n\n" + A}, "a.py::test_a[a::b[1]]", True, ""),
        ({"a.py": A}, {"a.py": "def test_a():\n    # why\n    f( 1 )\n"}, "a.py::test_a", True, ""),
        ({"a.py": A}, {"a.py": A.replace("1", "2")}, "a.py::test_a[1]", True, "changed"),
        ({"a.py": TWO}, {"a.py": TWO.replace("2", "3")}, "a.py::test_a[3]", False, "new"),
        ({"a.py": TWO}, {"a.py": TWO.replace("2", "3")}, "a.py::test_a[1]", True, ""),
        ({"a.py": "X = 1\n" + A}, {"a.py": "X = 2\n" + A}, "a.py::test_a[2]", False, "new"),
        ({"a.py": LATER}, {"a.py": LATER.replace("1", "2")}, "a.py::test_a", True, "changed"),
        ({"a.py": CLASS}, {"a.py": CLASS.replace("h", "")}, "a.py::TestC::test_c", True, "changed"),
        ({"a.py": CLASS}, {"a.py": CLASS.replace("C", "D")}, "a.py::TestD::test_c", False, ""),
        ({"a.py": CLASS}, {"a.py": CLASS + A}, "a.py::TestC::test_inherited", True, ""),
        ({"a.py": CLASS}, {"a.py": CLASS + A}, "a.py::TestC::test_inherited", False, "new"),
        ({"a.py": A}, {"a.py": B.replace("test_b", "test_z")}, "a.py::test_z", False, "new"),
        ({"a.py": A}, {"a.py": A.replace("test_a", "test_z")}, "a.py::test_z[1]", False, ""),
        ({"a.py": A + B, "b.py": ""}, {"a.py": B, "b.py": A}, "b.py::test_a", False, ""),
        ({"gone.py": A}, {"b.py": A}, "b.py::test_a", False, ""),
        ({"a.py": A}, {"z.py<a.py": A + B}, "z.py::test_a", False, ""),
        ({"a.py": A}, {"z.py<a.py": A + B}, "z.py::test_b", False, "new"),
        ({"a.py": A + B}, {"z.py<a.py": A + B.replace("g", "h")}, "z.py::test_b", False, "changed"),
        ({"a.py": A}, {"a.py": A + "("}, "a.py::test_a", True, "changed"),
        ({"a.py": A}, {"a.py": A + "x = '\\d'\n"}, "a.py::test_a", True, ""),
        ({"a.js": "1"}, {"a.js": "2"}, "a.js", True, "changed"),
        ({"a.js": "1"}, {"z.js<a.js": "1"}, "z.js", False, ""),
        ({}, {"a.js": "1"}, "a.js", False, "new"),
        ({"p/a_test.go": "1"}, {"p/a_test.go": "2", "p/z": ""}, "p", True, "changed"),
        ({"p/a.go": "1", "q/a_test.go": "1"}, {"q/p/a_test.go<q/a_test.go": "1"}, "q/p", False, ""),
    ],
)  # fmt: skip
def test_change_of_a_test(
    before: dict[str, str], after: dict[str, str], unit: str, on_base: bool, expected: str
) -> None:
    assert change(before, after, unit, on_base) == expected


@pytest.mark.parametrize(
    "source",
    [
        *(b"(" * 9999, b"x = " + b"-" * 99999 + b"1", b"f" + b".a" * 99999, b"\0", b"\xff"),
        *(b"#" * (MAX_BYTES + 1), b"def test():\n    return " + b"1 + " * 5000 + b"1\n"),
    ],
    ids=["brackets", "signs", "attributes", "zero", "encoding", "large", "sums"],
)
def test_hostile_file_does_not_parse(source: bytes) -> None:
    assert compare_functions(A.encode(), source) is None
    assert compare_functions(source, A.encode()) is None


P = "import pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test_p(n): pass\n"
OLD = "".join(f"def test_{n}(): f({n}, 'as it was')\n" for n in range(5))
CONFIG = "[history]\nstore = 'past.bin'\n[new_tests]\n{}\n[suite.py]\ncwd = 'app'\n"
BASE = {"ciguard.toml": CONFIG.format(""), "app/test_a.py": A + B.replace("x", "") + P}
BASE |= {"p/a_test.go": "1", "q/b_test.go": "1", "app/test_old.py": OLD, "app/test_same.py": A}
CHANGE: dict[str, str | None]
CHANGE = {"app/test_a.py": A.replace("1", "2") + P.replace("2", "2, 3") + "def test_n(): pass\n"}
CHANGE |= {"app/test_old.py": None, "app/test_z [é].py": OLD.replace("3,", "9,")}
CHANGE |= {"p/a_test.go": "2", "app/test_b.py": CLASS + "    def test_m():\n        g()\n"}
ON_BASE = {"test_a.py::test_a": 9, "test_a.py::test_b": 1, "test_a.py::test_p[1]": 2}
ON_BASE |= {"test_a.py::test_p[2]": 3, "test_same.py::test_a": 5}
ON_BASE |= {f"test_old.py::test_{n}": 4 for n in range(5)}
MARKED = {"test_a.py::test_p[3]": "new", "test_a.py::test_n": "new", "test_a.py::test_a": "changed"}
MARKED |= {"test_b.py::TestC::test_c": "new", "test_z [é].py::test_3": "changed"}


class Proposal:
    """A pull request that is planned with a history of one run of its base."""

    def __init__(
        self, ciguard: Ciguard, folder: Path, config: str = "", depth: int = 2, to: Any = CHANGE
    ) -> None:
        base = {**BASE, "ciguard.toml": CONFIG.format(config)}
        change = {"ciguard.toml": CONFIG.format("at_most = 99"), **to}
        self.checkout, self.ciguard = PolicyCheckout(folder).propose(base, change, depth), ciguard
        (self.checkout.folder / "durations.json").write_text(json.dumps(ON_BASE))
        words = ("durations.json", "--run-id", "1", "--suite", "py")
        ciguard("history", "add", *words, cwd=self.checkout.folder)

    def plan(self, *words: str, **more: str) -> dict[str, Any]:
        environ = self.checkout.environ(**more)
        del environ["PATH"]
        words = ("plan", *words, "-o", "plan.json")
        self.text = self.ciguard(*words, cwd=self.checkout.folder, **cast("Any", environ)).stdout
        found: dict[str, Any] = json.loads((self.checkout.folder / "plan.json").read_text())
        return found


def marked(plan: dict[str, Any]) -> dict[str, str]:
    units = [unit for shard in plan["shards"] for unit in shard["units"]]
    return {unit["unit"]: unit["change"] for unit in units if "change" in unit}


def kinds(plan: dict[str, Any]) -> list[str]:
    return [note["kind"] for note in plan["warnings"]]


@pytest.mark.parametrize("depth", [1, 2], ids=["fetched", "in the checkout"])
def test_tests_are_marked_and_have_time(ciguard: Ciguard, tmp_path: Path, depth: int) -> None:
    proposal = Proposal(ciguard, tmp_path, depth=depth)
    plan = proposal.plan()
    assert marked(plan) == MARKED
    makespan_s = max(shard["predicted"]["wall_s"] for shard in plan["shards"])
    assert plan["policy"]["repeat_until_s"] == pytest.approx(1.05 * makespan_s, abs=1e-6)
    assert "repeated tests  3 new, 2 changed; until" in proposal.text
    assert not kinds(plan)


def test_limit_of_the_base_holds_and_counts_new_and_short_tests_first(
    ciguard: Ciguard, tmp_path: Path
) -> None:
    proposal = Proposal(ciguard, tmp_path, "budget = '50%'\nat_most = 4")
    plan = proposal.plan("--format", "markdown")
    expected = [name for name, change in MARKED.items() if change == "new"]
    assert marked(plan).keys() == {*expected, "test_z [é].py::test_3"}
    assert kinds(plan) == ["repeats_omitted"]
    assert "1 more new or changed tests are not repeated: new_tests.at_most is 4" in proposal.text
    assert "\n- repeated tests: 3 new, 1 changed; until" in proposal.text
    walls_s = [shard["predicted"]["wall_s"] for shard in plan["shards"]]
    assert plan["policy"]["repeat_until_s"] == pytest.approx(1.5 * max(walls_s), abs=1e-6)


PUSH, QUEUE = ({"GITHUB_EVENT_NAME": event} for event in ("push", "merge_group"))
NO_HISTORY = {"CIGUARD_HISTORY_STORE": "none.bin"}


@pytest.mark.parametrize("variables", [{}, PUSH, QUEUE, NO_HISTORY], ids=str)
def test_plan_without_repeats_is_as_before(
    ciguard: Ciguard, tmp_path: Path, variables: dict[str, str]
) -> None:
    plan = Proposal(ciguard, tmp_path, "" if variables else "policy = 'off'").plan(**variables)
    assert not marked(plan)
    assert not {"repeat_until_s", "repeat_unplanned", "repeat_files"} & plan["policy"].keys()
    assert kinds(plan) == ["history_missing"] * (variables == NO_HISTORY)


@pytest.mark.parametrize("words", [(), ("--matrix", "matrix.yml", "--collect", "history")])
def test_change_without_tests_repeats_none(
    ciguard: Ciguard, tmp_path: Path, words: tuple[str, ...]
) -> None:
    plan = Proposal(ciguard, tmp_path, to={"README.md": "", "matrix.yml": ""}).plan(*words)
    assert not marked(plan)
    assert not {"repeat_until_s", "repeat_unplanned", "repeat_files"} & plan["policy"].keys()


@pytest.mark.parametrize("depth", [1, 2], ids=["no base", "head"])
def test_changed_tests_are_unknown_without_the_merge(
    ciguard: Ciguard, tmp_path: Path, depth: int
) -> None:
    proposal = Proposal(ciguard, tmp_path, depth=depth)
    broken = ("remote", "set-url", "origin", "nowhere")
    git(proposal.checkout.folder, *(broken if depth == 1 else ("checkout", "-q", "HEAD^2")))
    plan = proposal.plan()
    new = {name for name, change in MARKED.items() if change == "new"}
    new |= {"test_b.py::TestC::test_m", *(f"test_z [é].py::test_{n}" for n in range(5))}
    assert marked(plan) == dict.fromkeys(new, "new")
    assert kinds(plan) == ["changed_tests_unknown"]


def test_jobs_that_list_repeat_what_they_find(ciguard: Ciguard, tmp_path: Path) -> None:
    proposal = Proposal(ciguard, tmp_path, "at_most = 14")
    (proposal.checkout.folder / "matrix.yml").write_text("")
    words = ("--matrix", "matrix.yml", "--collect", "history", "--shards", "3")
    plan = proposal.plan(*words)
    assert marked(plan) == {name: MARKED[name] for name in MARKED.keys() & ON_BASE.keys()}
    assert plan["policy"]["repeat_unplanned"] == (14 - 1) // 3
    assert plan["policy"]["repeat_files"] == ["app/test_a.py", "app/test_b.py"]
    assert "repeated tests  1 changed, up to 4 new in each shard; until" in proposal.text
    with (proposal.checkout.folder / "ciguard.toml").open("a") as file:
        file.write("[suite.other]\n")  # no run of the base has it
    policy = proposal.plan(*words)["policy"]
    assert not {"repeat_unplanned", "repeat_files"} & policy.keys()


def test_package_is_a_folder_of_test_files(ciguard: Ciguard, tmp_path: Path) -> None:
    proposal = Proposal(ciguard, tmp_path)
    folder, known = proposal.checkout.folder, ("e.com/p.TestA", "e.com/q.TestB")
    with (folder / "ciguard.toml").open("a") as file:
        file.write("[suite.go]\nframework = 'go'\n")
    (folder / "go.json").write_text(json.dumps(dict.fromkeys(known, 1.0)))
    ciguard("history", "add", "go.json", "--run-id", "2", "--suite", "go", cwd=folder)
    units = (*known, "e.com/p.TestC", "e.com/q.TestD")
    rows = [{"unit": unit, "suite": "go", "file": unit[6]} for unit in units]
    (folder / "units.json").write_text(json.dumps(rows))
    expected = {"e.com/p.TestA": "changed", "e.com/p.TestC": "new"}
    assert marked(proposal.plan("--inventory", "units.json")) == expected, "another added TestD"


def test_difference_has_all_names_and_those_of_the_folder(tmp_path: Path) -> None:
    names = ("a/\n", 'a/"b\t', "a/é ", "a/-z", "b/x")
    change: dict[str, str | None] = {name: f"{name}\n" for name in names}
    job = PolicyCheckout(tmp_path).propose({"a/old": OLD}, {**change, "a/old": None, "a/>": OLD}, 2)
    checkout = Checkout(job.folder / "a", environment(tmp_path))
    files = checkout.diff(job.tip)
    assert sorted(file.path for file in files) == sorted(["\n", '"b\t', "é ", "-z", ">"])
    assert [file.renamed_from for file in files if file.path == ">"] == ["old"]
    contents = checkout.blobs([file.blob for file in files])
    assert contents[files[0].blob] == f"a/{files[0].path}\n".encode()
