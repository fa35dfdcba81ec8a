"""`ciguard plan` as a user calls it: the real program, real suites, a clean environment."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from conftest import clean_environment

from ciguard.codec import plan as codec
from ciguard.codec.history import empty, encode
from ciguard.codec.plan import COLUMNS_FROM

if TYPE_CHECKING:
    from conftest import Ciguard

TESTS = """
import pytest
@pytest.mark.parametrize("n", range(6))
def test_n(n): pass
class TestC:
    def test_2(self): pass
    def test_1(self): pass
"""
SCHEMA = Path(__file__).parents[2] / "docs" / "plan.schema.json"
LISTED = "\n".join(f"tests/test_{file}.py::test_{n}" for file in "abc" for n in range(10))
NONE = ("--history", "none.ciguard")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(TESTS, "utf-8")
    (tmp_path / "tests" / "test_empty.py").write_text("", "utf-8")
    return tmp_path


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    (tmp_path / "units.txt").write_text(LISTED, "utf-8")
    return tmp_path


def plan_of(text: str) -> dict[str, Any]:
    codec.decode(text.encode(), "stdout")
    found: dict[str, Any] = json.loads(text)
    return found


def ids(plan: dict[str, Any]) -> list[str]:
    return [unit["unit"] for shard in plan["shards"] for unit in shard["units"]]


def test_without_configuration_it_collects_what_is_there(project: Path, ciguard: Ciguard) -> None:
    plan = plan_of(ciguard("plan", "--shards", "2", "--json", cwd=project).stdout)
    expected = subprocess.run(
        ["python", "-m", "pytest", "--collect-only", "-q"],
        cwd=project,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(ids(plan)) == sorted(line for line in expected.stdout.split("\n") if "::" in line)
    assert list(plan["suites"]) == [""]
    assert plan["suites"][""]["command"] == ["python", "-m", "pytest"]
    assert plan["inventory"]["files"] == {"tests/test_a.py": 8, "tests/test_empty.py": 0}
    assert len(plan["shards"]) == 2
    assert plan["repository"] is None


def test_units_keep_the_order_of_collection(project: Path, ciguard: Ciguard) -> None:
    plan = plan_of(ciguard("plan", "--shards", "1", "--json", cwd=project).stdout)
    assert ids(plan)[-2:] == ["tests/test_a.py::TestC::test_2", "tests/test_a.py::TestC::test_1"]


def test_a_collection_error_is_an_error(project: Path, ciguard: Ciguard) -> None:
    (project / "tests" / "test_broken.py").write_text("import nowhere", "utf-8")
    (project / "tests" / "test_bad.py").write_text("def test(: pass", "utf-8")
    done = ciguard("plan", "--shards", "2", "-o", "plan.json", cwd=project, expect=3)
    assert "nowhere" in done.stderr
    assert "test_bad.py" in done.stderr
    assert "Traceback (most recent call last)" not in done.stderr.replace("E   ", "")
    assert not (project / "plan.json").exists()


def test_an_empty_inventory_is_nothing_to_do(tmp_path: Path, ciguard: Ciguard) -> None:
    done = ciguard("plan", "--inventory", "-", *NONE, cwd=tmp_path, stdin="\n\n", expect=5)
    assert "there is no unit to plan" in done.stderr
    assert not done.stdout
    ciguard("plan", *NONE, cwd=tmp_path, expect=5)


def test_repeated_units_are_refused(tmp_path: Path, ciguard: Ciguard) -> None:
    done = ciguard("plan", "--inventory", "-", cwd=tmp_path, stdin="a\nb\na\n", expect=3)
    assert "stdin: listed more than once: a\n" in done.stderr


def test_the_table_says_that_nothing_is_known(listed: Path, ciguard: Ciguard) -> None:
    done = ciguard("plan", "--inventory", "units.txt", *NONE, "--shards", "3", cwd=listed)
    assert "warning: there is no history at none.ciguard yet" in done.stderr
    assert "the plan was not written" in done.stderr
    assert done.stdout.startswith("shard  units  predicted wall")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "[" not in done.stdout, "no colour in a pipe"


def test_tries_that_do_nothing_are_said(listed: Path, ciguard: Ciguard) -> None:
    suite = '[suite.web]\nframework = "command"\nlist = ["cat", "units.txt"]\ncommand = ["true"]\n'
    for more, said in (("", False), ('results = ["*.xml"]\n', True)):
        (listed / "ciguard.toml").write_text(f"{suite}{more}[policy]\ntries = 2\n")
        done = ciguard("plan", "--shards", "2", "--history", "none", "--json", cwd=listed)
        what = "policy.tries does nothing for suite web: its results are in files"
        assert (
            (what in plan_of(done.stdout)["warnings"])
            == (f"warning: {what}" in done.stderr)
            == said
        )


def test_a_history_that_cannot_be_reached_is_said_and_planned_without(
    listed: Path, ciguard: Ciguard
) -> None:
    words = ("plan", "--inventory", "units.txt", "--shards", "3", "--json")
    done = ciguard(*words, "--history", "branch:ciguard-history", cwd=listed)
    said = "the history at branch:ciguard-history cannot be used: the current folder is in no git"
    assert f"warning: {said}" in done.stderr
    plan = plan_of(done.stdout)
    assert said in plan["warnings"][0]
    assert [len(shard["units"]) for shard in plan["shards"]] == [10, 10, 10]


CUT = encode(empty())[:-1]


@pytest.mark.parametrize(
    ("content", "what", "fix"),
    [
        (b"no history", "no history file", "name a file that ciguard wrote"),
        (b"", "no history file: it is empty", "name a file that ciguard wrote"),
        (b'{"type":"plan"}', "no history file", "name a file that ciguard wrote"),
        (CUT, "the file was cut or changed", "put it aside: mv past past.damaged"),
        (
            b"ciguard-history 99 0\n{}\n",
            "a newer ciguard wrote it: schema 99 is not 1",
            "use the version",
        ),
        (None, "no file that can hold a history", "name a file, or branch:NAME"),
    ],
    ids=["text", "empty", "plan", "cut", "newer", "folder"],
)
def test_a_history_that_cannot_be_used_is_said_first_and_stops_no_plan(
    content: bytes | None, what: str, fix: str, listed: Path, ciguard: Ciguard
) -> None:
    past = listed / "past"
    if content is None:
        past.mkdir()
    else:
        past.write_bytes(content)
    words = ("plan", "--inventory", "units.txt", "--history", "past", "--shards", "3")
    (listed / "outputs").touch()
    done = ciguard(
        *(*words, "--github", "-o", "plan.json"),
        cwd=listed,
        GITHUB_OUTPUT=str(listed / "outputs"),
        GITHUB_STEP_SUMMARY=str(listed / "summary.md"),
    )
    said = f"the history at past cannot be used: {what}; the units are taken for equal"
    assert f"::warning title=ciguard plan::{said}" in done.stderr
    first = done.stdout.partition("\n\n")[0]
    assert " ".join(first.split()).startswith(f"warning: {said}")
    assert max(map(len, first.splitlines())) <= 80
    head = (listed / "summary.md").read_text("utf-8").splitlines()[2]
    assert head.startswith("> :warning: **the history at past cannot be used")
    plan = json.loads((listed / "plan.json").read_text("utf-8"))
    assert plan["history"]["source"] is None
    assert plan["history"]["problem"].startswith(said)
    assert f"Fix: {fix}" in plan["history"]["problem"]
    assert plan["warnings"][0] == plan["history"]["problem"]
    assert [len(shard["units"]) for shard in plan["shards"]] == [10, 10, 10]
    if content is not None:
        assert past.read_bytes() == content
        assert "rm " not in fix


def test_durations_of_another_program_are_joined(listed: Path, ciguard: Ciguard) -> None:
    durations = {f"tests/test_a.py::test_{n}": 10.0 for n in range(10)}
    (listed / ".test_durations").write_text(json.dumps({**durations, "gone": 1.0}), "utf-8")
    ciguard(
        *("history", "add", ".test_durations", "--history", "past", "--run-id", "1"), cwd=listed
    )
    words = ("plan", "--inventory", "units.txt", "--history", "past", "--shards", "3", "--json")
    done = ciguard(*words, cwd=listed)
    assert "10 of its 11 entries (90.9%) are units that exist" in done.stderr
    plan = plan_of(done.stdout)
    units = {unit["unit"]: unit for shard in plan["shards"] for unit in shard["units"]}
    assert units["tests/test_a.py::test_0"]["wall_s"] == 10.0
    assert units["tests/test_a.py::test_0"]["known"]
    assert units["tests/test_b.py::test_0"]["wall_s"] == 10.0
    assert not units["tests/test_b.py::test_0"]["known"]
    assert plan["history"] == {
        "source": "past",
        "runs": 1,
        "entries": 11,
        "joined": 10,
        "known": 10,
    }


@pytest.mark.parametrize("bad", ["NaN", "-1", "1e300", '"x"'])
def test_durations_that_are_none_are_an_error_or_not_used(
    bad: str, listed: Path, ciguard: Ciguard
) -> None:
    text = f'{{"tests/test_a.py::test_0": {bad}, "tests/test_a.py::test_1": 2.0}}'
    (listed / "durations.json").write_text(text, "utf-8")
    done = ciguard(
        *("history", "add", "durations.json", "--history", "past", "--run-id", "1"),
        cwd=listed,
        expect=3,
    )
    assert "durations.json" in done.stderr


def test_an_inventory_in_any_order_gives_the_same_bytes(tmp_path: Path, ciguard: Ciguard) -> None:
    words = ("plan", "--inventory", "-", *NONE, "--shards", "4", "--json")
    one, other = (
        ciguard(*words, cwd=tmp_path, stdin="\n".join(lines)).stdout
        for lines in (LISTED.split("\n"), reversed(LISTED.split("\n")))
    )
    assert one == other


def test_ids_of_any_kind_survive(tmp_path: Path, ciguard: Ciguard) -> None:
    names = ["a\nb", "quote\"s'", "😀", "x" * 5000, "::", "t[a::b/c]", "\u2028", "-o"]
    packed = gzip.compress(json.dumps([{"unit": name} for name in names]).encode())
    (tmp_path / "units.json.gz").write_bytes(packed)
    words = ("plan", "--inventory", "units.json.gz", *NONE, "--shards", "3", "--group", "none")
    plan = plan_of(ciguard(*words, "--json", cwd=tmp_path).stdout)
    assert sorted(ids(plan)) == sorted(names)
    ciguard(*words, cwd=tmp_path)


@pytest.mark.parametrize(("count", "form"), [(30, list), (COLUMNS_FROM, dict)])
def test_what_is_written_keeps_the_published_schema(
    count: int, form: type, tmp_path: Path, ciguard: Ciguard
) -> None:
    text = "\n".join(f"tests/test_{n % 99}.py::test_{n}" for n in range(count))
    words = ("plan", "--inventory", "-", *NONE, "--shards", "3", "-o", "plan.json")
    ciguard(*words, cwd=tmp_path, stdin=text)
    plan = json.loads((tmp_path / "plan.json").read_bytes())
    assert {type(shard["units"]) for shard in plan["shards"]} == {form}
    jsonschema.validate(plan, json.loads(SCHEMA.read_text("utf-8")))
    assert len(codec.decode((tmp_path / "plan.json").read_bytes(), "x").shards) == 3


def test_artifact_and_output_hold_the_same_plan(listed: Path, ciguard: Ciguard) -> None:
    words = ("plan", "--inventory", "units.txt", *NONE, "-o", "one.json", "--artifact", "deep/art")
    ciguard(*words, cwd=listed)
    folder = listed / "deep" / "art"
    assert sorted(path.name for path in folder.iterdir()) == ["ciguard-run.pyz", "plan.json"]
    assert (folder / "plan.json").read_bytes() == (listed / "one.json").read_bytes()
    first = (folder / "ciguard-run.pyz").read_bytes()
    ciguard(*words, cwd=listed)
    assert (folder / "ciguard-run.pyz").read_bytes() == first


def test_a_dash_is_stdout(listed: Path, ciguard: Ciguard) -> None:
    done = ciguard("plan", "--inventory", "units.txt", *NONE, "-o", "-", cwd=listed)
    assert len(ids(plan_of(done.stdout))) == 30


def test_a_place_that_cannot_be_written_is_said(listed: Path, ciguard: Ciguard) -> None:
    (listed / "file").write_text("")
    done = ciguard(
        *("plan", "--inventory", "units.txt", *NONE, "-o", "file/plan.json"), cwd=listed, expect=3
    )
    assert "file/plan.json: cannot be written" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only_is_said(listed: Path, ciguard: Ciguard) -> None:
    folder = listed / "locked"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    done = ciguard(
        *("plan", "--inventory", "units.txt", *NONE, "-o", "locked/plan.json"),
        cwd=listed,
        expect=3,
    )
    assert "locked/plan.json: cannot be written" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--shards", "257"), "--shards: expected at most 256, found '257'"),
        (("--shards", "0"), "--shards: expected at least 1"),
        (("--shards", "four"), "--shards: "),
        (("--target-wall", "-1m"), "--target-wall: expected a time like"),
        (("--target-wall", "0s"), "--target-wall: "),
        (("--limit", "soon"), "--limit: expected a time like"),
        (("--risk", "1.5"), "--risk: "),
        (("--group", "module"), "--group: "),
        (("--processes", "0"), "--processes: "),
        (("--shards", "2", "--target-wall", "5m"), "both --shards and --target-wall"),
        (("--pool", "nowhere"), "no pool 'nowhere'\n  fix: the configuration has: default"),
        (("--github",), "GITHUB_OUTPUT is not set"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(
    words: tuple[str, ...], said: str, listed: Path, ciguard: Ciguard
) -> None:
    done = ciguard("plan", "--inventory", "units.txt", *words, cwd=listed, expect=2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_all_mistakes_are_told_together(listed: Path, ciguard: Ciguard) -> None:
    done = ciguard(
        *("plan", "--inventory", "units.txt", "--shards", "0", "--risk", "2"), cwd=listed, expect=2
    )
    assert "--shards" in done.stderr
    assert "--risk" in done.stderr


def test_a_limit_that_cannot_be_kept_is_a_warning(listed: Path, ciguard: Ciguard) -> None:
    durations = {"tests/test_a.py::test_0": 600.0}
    (listed / "durations.json").write_text(json.dumps(durations), "utf-8")
    ciguard(*("history", "add", "durations.json", "--history", "past", "--run-id", "1"), cwd=listed)
    words = ("plan", "--inventory", "units.txt", "--history", "past", "--shards", "2")
    done = ciguard(*words, "--limit", "5m", "--json", cwd=listed)
    plan = plan_of(done.stdout)
    assert len(ids(plan)) == 30
    assert "tests/test_a.py::test_0" in done.stderr
    assert any("over the 3 min 30 s after which a leg stops" in text for text in plan["warnings"])
    assert {shard["timeout_minutes"] for shard in plan["shards"]} == {5}
    assert plan["policy"]["deadline_s"] == 210.0


def test_the_workflow_gets_its_outputs_and_its_summary(listed: Path, ciguard: Ciguard) -> None:
    sha = "a" * 40
    (listed / "outputs").write_text("before=1\n")
    done = ciguard(
        *("plan", "--inventory", "units.txt", *NONE, "--shards", "2", "--github"),
        *("--artifact", "art"),
        cwd=listed,
        GITHUB_ACTIONS="true",
        GITHUB_OUTPUT="outputs",
        GITHUB_STEP_SUMMARY="summary.md",
        GITHUB_REPOSITORY="o/r",
        GITHUB_WORKFLOW_REF="o/r/.github/workflows/tests.yml@refs/heads/main",
        GITHUB_SHA=sha,
        GITHUB_RUN_ID="7",
        GITHUB_RUN_ATTEMPT="3",
        GITHUB_REF_NAME="main",
        GITHUB_EVENT_NAME="push",
    )
    plan = json.loads((listed / "art" / "plan.json").read_bytes())
    lines = (listed / "outputs").read_text().splitlines()
    assert lines[0] == "before=1"
    told = {line.partition("<<")[0]: lines[at + 1] for at, line in enumerate(lines) if "<<" in line}
    assert told["plan_id"] == plan["id"]
    assert told["plan_artifact"] == f"ciguard-plan-{plan['id']}-3"
    include = json.loads(told["matrix"])["include"]
    assert [entry["shard"] for entry in include] == ["01", "02"]
    assert [(entry["timeout_minutes"], entry["step_timeout_minutes"]) for entry in include] == [
        (50, 45)
    ] * 2
    assert (plan["repository"], plan["workflow"], plan["head_sha"]) == ("o/r", "tests.yml", sha)
    assert f"### Plan {plan['id']}" in (listed / "summary.md").read_text()
    assert "::warning title=ciguard plan::there is no history" in done.stderr


CONFIGURED = """
[plan]
shards = 4
processes = 2
limit = "20m"
setup = "2m"

[policy]
tries = 2
guard_rail = "observe"

[pool.small]
runs_on = "ubuntu-latest"

[pool.big]
runs_on = ["self-hosted", "big"]
memory = "32GiB"
reserve = "2GiB"
env = { POOL = "big" }

[suite.fast]
framework = "command"
command = ["sh", "run.sh", "{units_file}"]
list = ["sh", "-c", "printf 'f1\\nf2\\nskip-me\\n'"]
exclude = ["skip-*"]
timeout = "30s"

[suite.slow]
framework = "command"
command = ["sh", "run.sh", "{units_file}"]
list = ["sh", "-c", "echo s-$POOL-$WAY-{variant}"]
pool = "big"
[suite.slow.variant.one]
env = { WAY = "1" }
[suite.slow.variant.two]
env = { WAY = "2" }
"""


def test_suites_variants_and_pools_of_the_configuration(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "ciguard.toml").write_text(CONFIGURED, "utf-8")
    plan = plan_of(ciguard("plan", *NONE, "--json", cwd=tmp_path).stdout)
    where = {
        (unit["suite"], unit["variant"], unit["unit"]): (shard["pool"], unit["timeout_s"])
        for shard in plan["shards"]
        for unit in shard["units"]
    }
    assert where == {
        ("fast", "", "f1"): ("small", 30.0),
        ("fast", "", "f2"): ("small", 30.0),
        ("slow", "one", "s-big-1-one"): ("big", None),
        ("slow", "two", "s-big-2-two"): ("big", None),
    }
    assert len(plan["shards"]) == 4
    (excluded,) = plan["inventory"]["excluded"]
    assert (excluded["unit"], excluded["rule"]) == ("skip-me", "suite.fast.exclude: skip-*")
    assert plan["policy"] == {
        "guard_rail": "observe",
        "tries": 2,
        "deadline_s": 1110.0,
        "remainder": False,
    }
    assert plan["pools"]["small"]["memory_bytes"] == 8 << 30
    big = next(shard for shard in plan["shards"] if shard["pool"] == "big")
    assert big["budget_bytes"] == 30 << 30
    assert plan["suites"]["slow"]["variants"]["two"]["env"] == {"WAY": "2"}


def test_one_pool_may_be_chosen_for_all(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "ciguard.toml").write_text(CONFIGURED, "utf-8")
    words = ("plan", *NONE, "--pool", "small", "--shards", "1", "--json")
    plan = plan_of(ciguard(*words, cwd=tmp_path).stdout)
    assert list(plan["pools"]) == ["small"]
    (shard,) = plan["shards"]
    assert len(shard["units"]) == 4


def test_the_errors_of_all_suites_are_told_together(tmp_path: Path, ciguard: Ciguard) -> None:
    text = CONFIGURED.replace("printf 'f1\\nf2\\nskip-me\\n'", "exit 7").replace(
        "echo s-", "exit 8; echo s-"
    )
    (tmp_path / "ciguard.toml").write_text(text, "utf-8")
    done = ciguard("plan", *NONE, cwd=tmp_path, expect=3)
    assert "suite fast: the list command ended with exit code 7" in done.stderr
    assert "suite slow one: the list command ended with exit code 8" in done.stderr
    assert "suite slow two: the list command ended with exit code 8" in done.stderr


def test_the_environment_may_say_what_the_configuration_says(
    listed: Path, ciguard: Ciguard
) -> None:
    words = ("plan", "--inventory", "units.txt", *NONE, "--json")
    plan = plan_of(ciguard(*words, cwd=listed, CIGUARD_PLAN_SHARDS="5").stdout)
    assert len(plan["shards"]) == 5
    flagged = ciguard(*words, "--shards", "2", cwd=listed, CIGUARD_PLAN_SHARDS="5")
    assert len(plan_of(flagged.stdout)["shards"]) == 2
    timed = ciguard(*words, "--target-wall", "1h", cwd=listed, CIGUARD_PLAN_SHARDS="5")
    assert len(plan_of(timed.stdout)["shards"]) == 1


def test_a_variable_that_sets_nothing_is_refused(listed: Path, ciguard: Ciguard) -> None:
    words = ("plan", "--inventory", "units.txt", *NONE)
    wrong = {"CIGUARD_PLAN_SHARD": "3", "CIGUARD_POLICY_TRIS": "2"}
    done = ciguard(*words, cwd=listed, expect=2, **wrong)
    assert "environment: CIGUARD_PLAN_SHARD: sets no key of the configuration" in done.stderr
    assert "did you mean CIGUARD_PLAN_SHARDS?" in done.stderr
    assert "did you mean CIGUARD_POLICY_TRIES?" in done.stderr


def test_a_bare_number_is_seconds_and_a_limit_is_kept_to_the_second(
    listed: Path, ciguard: Ciguard
) -> None:
    words = ("plan", "--inventory", "units.txt", *NONE, "--json", "--limit")
    for text in ("90", "90s", "1m30s"):
        plan = plan_of(ciguard(*words, text, cwd=listed).stdout)
        assert plan["policy"]["deadline_s"] == 72.0
        assert {shard["timeout_minutes"] for shard in plan["shards"]} == {2}


def test_patterns_that_match_no_file_are_told(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "units.txt").write_text("a\n")
    (tmp_path / "ciguard.toml").write_text('[suite.x]\nfiles = ["nosuch_*.py"]\n')
    done = ciguard("plan", "--inventory", "units.txt", *NONE, cwd=tmp_path)
    assert "suite.x.files: nosuch_*.py matches no file" in done.stderr


def test_words_for_wrong_types_are_those_of_who_wrote_them(
    tmp_path: Path, ciguard: Ciguard
) -> None:
    (tmp_path / "ciguard.toml").write_text('[suite.x]\nfiles = "test_*.py"\n[plan]\nrisk = 2\n')
    done = ciguard("plan", *NONE, cwd=tmp_path, expect=2)
    assert "suite.x.files: expected a list, found 'test_*.py'" in done.stderr
    assert "plan.risk: expected less than 1, found 2" in done.stderr


@pytest.mark.parametrize(
    ("form", "begin"),
    [("text", "shard "), ("markdown", "### Plan"), ("html", "<!doctype html>"), ("json", "{")],
)
def test_a_plan_is_printed_as_wanted(listed: Path, ciguard: Ciguard, form: str, begin: str) -> None:
    words = ("plan", "--inventory", "units.txt", *NONE, "--what-if", "--format", form)
    assert ciguard(*words, cwd=listed).stdout.lower().startswith(begin.lower())


def test_what_if_writes_nothing(listed: Path, ciguard: Ciguard) -> None:
    before = sorted(path.name for path in listed.iterdir())
    words = ("plan", "--inventory", "units.txt", *NONE, "--what-if")
    done = ciguard(*words, "--shards", "2", cwd=listed)
    assert "in 2 shards" in done.stdout
    assert "was not written" not in done.stderr
    assert sorted(path.name for path in listed.iterdir()) == before
    refused = ciguard(*words, "-o", "plan.json", cwd=listed, expect=2)
    assert "--what-if: nothing is written" in refused.stderr


def test_a_unit_is_explained(listed: Path, ciguard: Ciguard) -> None:
    unit = (listed / "units.txt").read_text().splitlines()[0]
    words = ("plan", "--inventory", "units.txt", *NONE, "--explain")
    done = ciguard(*words, unit, cwd=listed)
    assert done.stdout.startswith(f"{unit}\n\nshard ")
    assert "nobody has measured anything" in done.stdout
    ciguard(*words, "no such unit", cwd=listed, expect=3)


def test_a_base_plan_keeps_units_where_they_are(listed: Path, ciguard: Ciguard) -> None:
    words = ("plan", "--inventory", "units.txt", *NONE, "--group", "none", "--json")
    before = plan_of(ciguard(*words, "--shards", "3", cwd=listed).stdout)
    (listed / "base.json").write_text(json.dumps(before))
    after = plan_of(ciguard(*words, "--shards", "3", "--base-plan", "base.json", cwd=listed).stdout)
    assert after["base"] == before["id"]
    assert after["moved"] == []
    (listed / "base.json").write_text("{}")
    refused = ciguard(*words, "--base-plan", "base.json", cwd=listed, expect=3)
    assert "base.json: no plan" in refused.stderr


def test_what_a_plan_says_can_be_run(project: Path, ciguard: Ciguard) -> None:
    """The plan's own program, run as a leg runs it, records every planned unit as passed."""
    ciguard("plan", *NONE, "--shards", "2", "--artifact", "art", cwd=project)
    plan = json.loads((project / "art" / "plan.json").read_bytes())
    ran = []
    for shard in plan["shards"]:
        ciguard(
            *("run", "--plan", "art", "--shard", shard["key"], "--record", f"rec/{shard['key']}"),
            cwd=project,
        )
    for path in sorted((project / "rec").rglob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        ran += [line["unit"] for line in lines if line["type"] == "result"]
    assert sorted(ran) == sorted(ids(plan))


def test_without_a_configuration_suites_are_what_the_inventory_names(
    tmp_path: Path, ciguard: Ciguard
) -> None:
    ways = [{"suite": "x", "variant": "v"}, {"suite": "y"}, {"suite": "y", "variant": "w"}]
    (tmp_path / "units.json").write_text(json.dumps([{"unit": "a", **way} for way in ways]))
    done = ciguard("plan", "--inventory", "units.json", "--shards", "3", "--json", cwd=tmp_path)
    plan = json.loads(done.stdout)
    assert {name: sorted(suite["variants"]) for name, suite in plan["suites"].items()} == {
        "x": ["v"],
        "y": ["", "w"],
    }
    (tmp_path / "ciguard.toml").write_text("[suite.x]\n[suite.x.variant.v]\n")
    done = ciguard("plan", "--inventory", "units.json", cwd=tmp_path, expect=3)
    assert "no suite 'y'" in done.stderr
