"""The generated workflow, judged by those who know: actionlint, zizmor and GitHub's own parser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from init.move_in_samples import ADDRESS
from init.workflow_steps import evaluate

from ciguard.errors import UsageError
from ciguard.init.workflow_files import Workflow, count_checkpoint_steps, render_workflow
from ciguard.model import DRILL_KINDS
from ciguard.workflow.job_templates import ACTIONS

if TYPE_CHECKING:
    from init.conftest import Init

ROOT = Path(__file__).parent.parent.parent
BIN = Path(sys.executable).parent
PARSER = ROOT / ".tools"

SETUP = f"""
- uses: {ACTIONS["setup_python"]}
  with:
    python-version: "3.9"
- name: Everything that YAML and Jinja could stumble over
  if: ${{{{ runner.os != 'Windows' }}}}
  env:
    GREETING: "{{{{ not Jinja }}}} {{% nor this %}} [[ $HOME ]] << EOF"
  run: |
    cat <<'END'
      indented

    END
    python -m pip install -r requirements.txt
"""


def workflow(**changes: Any) -> Workflow:
    values: dict[str, Any] = {
        "default_branch": "main",
        "actions": ADDRESS,
        "setup": "",
        "history": "branch:ciguard-history",
    }
    return Workflow(**{**values, **changes})


def rendered(**changes: Any) -> str:
    return render_workflow(workflow(**changes))


PARTS = {"checkpoint": "15m", "checkpoint_steps": 3}
SERVICE = {
    "history": "https://ciguard.example/api/v1/repos/o/r/history",
    "branch": False,
    "service": True,
}
CULPRIT = {"culprit_budget": "20m", "culprit_minutes": 50}
CLAIMS = "https://ciguard.example"
OWN = ("ci", "docs", "release")  # workflows of this repository
CASES = {
    "plain": rendered(),
    "set-up steps": rendered(setup=SETUP),
    "names with a meaning in YAML": rendered(default_branch="#no-'joke"),
    "checkpoints": rendered(**PARTS),
    "confirm": rendered(confirm_suspects=True),
    "culprit": rendered(setup=SETUP, **CULPRIT),
    "coverage": rendered(setup=SETUP, coverage="coverage.py"),
    "forks, coverage": render_workflow(workflow(coverage="go"), forks=True),
    "forks": render_workflow(workflow(), forks=True),
    "service": rendered(**SERVICE, **CULPRIT, confirm_suspects=True),
    "claims": rendered(claims=CLAIMS),
    "claims and history of a service": rendered(**SERVICE, claims=CLAIMS),
    "pages": rendered(pages="public"),
    "pages and history of a service": rendered(**SERVICE, pages="public"),
    "forks, service": render_workflow(workflow(**SERVICE), forks=True),
    **{name: (ROOT / f".github/workflows/{name}.yml").read_text("utf-8") for name in OWN},
}
every_case = pytest.mark.parametrize("text", CASES.values(), ids=CASES)
SPOILT = CASES["plain"].replace("fail-fast: false", "fail-fats: false")


LEAKY = CASES["set-up steps"].replace("    indented", "    ${{ github.head_ref }}")
LINTERS = {
    "actionlint": ("-no-color", "-shellcheck=", "-pyflakes="),
    "zizmor": ("--offline", "--no-progress", "--persona=regular"),
}


def run_linter(
    program: str, folder: Path, texts: Mapping[str, str], *options: str
) -> subprocess.CompletedProcess[str]:
    target = folder / ".github/workflows"
    target.mkdir(parents=True)
    for name, text in texts.items():
        (target / f"{name}.yml").write_text(text, "utf-8")
    command = [str(BIN / program), *(options or LINTERS[program])]
    command += [str(target / f"{name}.yml") for name in texts]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("program", LINTERS)
def test_workflows_pass_the_linters(program: str, tmp_path: Path) -> None:
    answer = run_linter(program, tmp_path, CASES)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize(
    ("program", "text", "finding"),
    [("actionlint", SPOILT, "fail-fats"), ("zizmor", LEAKY, "template-injection")],
)
def test_linters_find_what_is_wrong(program: str, text: str, finding: str, tmp_path: Path) -> None:
    answer = run_linter(program, tmp_path, {"spoilt": text})
    assert answer.returncode != 0
    assert finding in answer.stdout


def run_github_parser(*requests: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask GitHub's own parser; skips where it is not there (`make tools` installs it)."""
    node = shutil.which("node")
    if node is None or not (PARSER / "node_modules/@actions/workflow-parser").is_dir():
        pytest.skip("needs node and `make tools` (npm @actions/workflow-parser)")
    script = Path(__file__).parent / "github_parser.mjs"
    answer = subprocess.run(
        [node, str(script), str(PARSER)],
        input="\n".join(json.dumps(request) for request in requests),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines()]


def test_workflows_pass_the_github_parser() -> None:
    answers = run_github_parser(*({"workflow": text} for text in CASES.values()))
    assert [answer["errors"] for answer in answers] == [[] for _ in CASES]


def test_github_parser_detects_a_spoilt_workflow() -> None:
    (answer,) = run_github_parser({"workflow": SPOILT})
    assert "fail-fats" in answer["errors"][0]


def conditions() -> dict[str, str]:
    jobs = yaml.safe_load(CASES["plain"])["jobs"]
    return {name: " ".join(str(job.get("if", "")).split()) for name, job in jobs.items()}


RESULTS = ("success", "failure", "cancelled", "skipped")


def test_only_the_base_branch_writes_history() -> None:
    expected = {
        ("push", "success"): "true",
        ("push", "failure"): "false",
        ("pull_request", "success"): "false",
        ("workflow_dispatch", "success"): "false",
        ("merge_group", "success"): "false",
    }
    assert yaml.safe_load(CASES["plain"])[True]["push"] == {"branches": ["main"]}, "no other push"
    condition = conditions()["history"]
    requests = [
        {
            "expression": condition,
            "contexts": {"needs": {"plan": {"result": plan}}, "github": {"event_name": event}},
        }
        for event, plan in expected
    ]
    answers = [answer["value"] for answer in run_github_parser(*requests)]
    assert dict(zip(expected, answers, strict=True)) == expected


def jobs(text: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text)["jobs"]
    return found


def ours(job: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The steps of a job that use an action of ours: its name, and its inputs."""
    steps = [one for one in job["steps"] if "octo-org/ciguard/actions/" in one.get("uses", "")]
    return [(one["uses"].split("@")[0].rpartition("/")[2], one.get("with", {})) for one in steps]


def test_jobs_get_the_token_of_the_run_only_where_they_may_ask_for_tests() -> None:
    for case in ("claims", "claims and history of a service"):
        claims, tests = jobs(CASES[case])["claims"], jobs(CASES[case])["tests"]
        assert claims["outputs"]["token"] == "${{ steps.register.outputs.claims-token }}"
        assert ours(tests)[-1][1]["claims-token"] == "${{ needs.claims.outputs.token }}"
        assert CASES[case].count("needs.claims.outputs.token") == 1
    others = (text for case, text in CASES.items() if not case.startswith("claims"))
    assert not any("claims" in text.lower() for text in others)


def test_only_jobs_that_speak_to_a_service_get_an_oidc_token() -> None:
    with_token = {
        case: {
            name
            for name, job in jobs(CASES[case]).items()
            if job["permissions"].get("id-token") == "write"
        }
        for case in CASES
        if case not in OWN
    }
    assert {case: names for case, names in with_token.items() if names} == {
        "service": {"fetch-history", "report", "confirmed"},
        "claims": {"claims"},
        "claims and history of a service": {"fetch-history", "claims", "report"},
        "forks, service": {"report"},
        "pages": {"site"},
        "pages and history of a service": {"fetch-history", "report", "site"},
    }
    assert "history" in jobs(CASES["claims"])
    assert "history" not in jobs(CASES["service"])


def test_permissions_of_each_job_are_minimal() -> None:
    assert yaml.safe_load(CASES["plain"])["permissions"] == {}
    assert {name: job["permissions"] for name, job in jobs(CASES["plain"]).items()} == {
        "plan": {"contents": "read"},
        "tests": {"actions": "read", "contents": "read"},
        "report": {
            "actions": "read",
            "checks": "read",
            "contents": "read",
            "issues": "write",
            "pull-requests": "write",
        },
        "history": {"actions": "read", "contents": "write"},
    }


def test_confirm_job_has_no_write_permission() -> None:
    confirm, confirmed = (jobs(CASES["confirm"])[one] for one in ("confirm", "confirmed"))
    assert confirm["permissions"] == {"actions": "read", "contents": "read"}
    assert [name for name, _ in ours(confirm)] == ["confirm", "confirm"]
    assert [name for name, _ in ours(confirmed)] == ["report"]
    assert jobs(CASES["plain"]).keys() == jobs(CASES["confirm"]).keys() - {"confirm", "confirmed"}


def test_culprit_job_reads_and_the_job_that_writes_runs_nothing_of_the_checkout() -> None:
    content = jobs(CASES["culprit"])
    search, issue = content["culprit"], content["culprit-issue"]
    assert search["permissions"] == {"actions": "read", "contents": "read"}
    assert search["timeout-minutes"] == 50
    checkout, download, *setup, run = search["steps"]
    assert checkout["with"] == {"persist-credentials": False, "fetch-depth": 0}
    assert setup == yaml.safe_load(SETUP), "the comparison is there before code of the project"
    name = "${{ needs.report.outputs.culprit }}"
    assert (download["with"], run["with"]) == ({"comparison": name}, {"budget": "20m"})
    assert issue["permissions"] == {"actions": "read", "contents": "read", "issues": "write"}
    assert [step["with"] for step in issue["steps"]] == [{"publish": True}]
    assert jobs(CASES["plain"]).keys() == content.keys() - {"culprit", "culprit-issue"}


def test_culprit_job_runs_after_a_push_with_a_comparison_only() -> None:
    condition = jobs(CASES["culprit"])["culprit"]["if"]
    condition = condition.removeprefix("${{ !cancelled() && ").removesuffix(" }}")
    for event, artifact in (("push", "c"), ("push", ""), ("pull_request", "c")):
        values = {"github.event_name": event, "needs.report.outputs.culprit": artifact}
        assert evaluate(condition, values) is ((event, artifact) == ("push", "c"))


def test_coverage_job_has_the_set_up_only_for_coverage_py() -> None:
    job, report = (jobs(CASES["coverage"])[one] for one in ("ciguard-coverage", "report"))
    assert job["permissions"] == {"actions": "read", "contents": "read"}
    assert [name for name, _ in ours(job)] == ["coverage", "coverage"]
    assert "ciguard-coverage" in report["needs"]
    others = jobs(rendered(setup=SETUP, coverage="lcov"))["ciguard-coverage"]["steps"]
    assert len(job["steps"]) == len(others) + 2


def test_forks_workflow_runs_no_code_of_the_fork() -> None:
    (job,) = jobs(CASES["forks"]).values()
    assert yaml.safe_load(CASES["forks"])["permissions"] == {}
    assert "head_repository.full_name != github.repository" in job["if"]
    (checkout,) = [step for step in job["steps"] if "checkout" in step.get("uses", "")]
    assert set(checkout["with"]) == {"persist-credentials"}, "the default branch, and no ref"
    ((name, inputs),) = ours(job)
    assert (name, inputs) == (
        "report",
        {"run-id": "${{ github.event.workflow_run.id }}", "check": True},
    )
    assert job["permissions"] == {
        "actions": "read",
        "checks": "write",
        "contents": "read",
        "pull-requests": "write",
    }


def test_setup_steps_precede_the_tests_unchanged() -> None:
    steps = yaml.safe_load(SETUP)
    for name, before, after in (("plan", "history", "plan"), ("tests", "run", "run")):
        found = jobs(CASES["set-up steps"])[name]["steps"]
        start = found.index(steps[0])
        assert found[start : start + len(steps)] == steps
        assert f"/actions/{before}@" in found[start - 1]["uses"]
        (last,) = found[start + len(steps) :]
        assert f"/actions/{after}@" in last["uses"]
    assert CASES["set-up steps"].count("indented") == 2


def test_shards_have_the_limit_of_the_plan_and_end_by_themselves() -> None:
    tests = jobs(CASES["plain"])["tests"]
    assert tests["timeout-minutes"] == "${{ matrix.timeout_minutes }}"
    assert tests["strategy"]["fail-fast"] is False
    # A step's own limit would also cancel the upload of the record, which is part of the action.
    assert "step_timeout" not in CASES["plain"]
    plan, shard = ours(tests)
    assert plan == ("run", {"fetch": True, "plan": "${{ needs.plan.outputs.plan }}"})
    assert shard == ("run", {"shard": "${{ matrix.shard }}"})


def test_parts_of_a_shard_end_at_checkpoints_except_the_last() -> None:
    tests = jobs(CASES["checkpoints"])["tests"]
    (_, fetch), *parts = ours(tests)
    assert (fetch["fetch"], fetch["checkpoint"]) == (True, "15m")
    assert [inputs["part"] for _, inputs in parts] == [1, 2, 3]
    assert [inputs.get("checkpoint") for _, inputs in parts] == ["15m", "15m", None]
    steps = [one for one in tests["steps"] if one.get("name", "").startswith("Run the shard")]
    assert [step.get("if", "") for step in steps] == [
        "",
        "steps.part-1.outputs.state == 'checkpoint'",
        "steps.part-2.outputs.state == 'checkpoint'",
    ]


@pytest.mark.parametrize(("every_s", "parts"), [(900.0, 3), (901.0, 3), (2699.0, 2), (135.0, 20)])
def test_number_of_parts_follows_from_limit_and_interval(every_s: float, parts: int) -> None:
    assert count_checkpoint_steps(every_s, 2700.0) == parts


@pytest.mark.parametrize(
    ("every_s", "what"), [(2700.0, "no step would end there"), (134.0, "21 steps in a job")]
)
def test_checkpoint_interval_out_of_range_is_rejected(every_s: float, what: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        count_checkpoint_steps(every_s, 2700.0)
    assert caught.value.fix == "take at least 135 s and less than 2700 s"


@every_case
def test_actions_are_pinned_and_nothing_is_interpolated(text: str) -> None:
    for job in jobs(text).values():
        for step in job["steps"]:
            assert re.search(r"@[0-9a-f]{40}$|^\$/actions/\w+$", step.get("uses", "@" + "0" * 40))
            assert "${{" not in step.get("run", "")
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False


@every_case
def test_plan_and_report_fetch_the_base_commit(text: str) -> None:
    deep = {
        name: step["with"].get("fetch-depth")
        for name, job in jobs(text).items()
        for step in job["steps"]
        if "checkout" in step.get("uses", "")
    }
    # That of forks checks the default branch out, whose policy holds.
    wanted = "workflow_run:" not in text
    needing = {"plan", "ciguard", "report", "confirm", "confirmed", "ciguard-report"} & deep.keys()
    needing |= {"ciguard-coverage"} if "actions/coverage@" in text else set()
    assert {name: depth for name, depth in deep.items() if depth} == (
        dict.fromkeys(needing, 2) if wanted else {}
    )


def test_repository_workflow_uses_the_generated_action_pins() -> None:
    pins = set(ACTIONS.values())
    used = re.findall(r"uses: ([^$o].+)", CASES["ci"] + CASES["plain"])
    assert set(used) <= pins


@pytest.mark.parametrize(
    ("setup", "found"),
    [("run: make", "found dict"), ("- make", "found list"), ("- run: [", "not YAML"), ("7", "int")],
)
def test_a_setup_that_is_no_list_of_steps_is_refused(setup: str, found: str) -> None:
    with pytest.raises(UsageError, match=found) as caught:
        rendered(setup=setup)
    assert caught.value.where == "workflow.setup"
    assert caught.value.fix


def test_the_same_values_give_the_same_bytes() -> None:
    assert rendered(setup=SETUP) == rendered(setup=SETUP)


def test_drill_is_chosen_by_hand_alone() -> None:
    """Of a run that an event started the input is empty."""
    started = yaml.safe_load(CASES["plain"])[True]
    options = started["workflow_dispatch"]["inputs"]["drill"]["options"]
    assert options == ["none", *DRILL_KINDS]
    assert {"pull_request": None, "merge_group": None}.items() <= started.items()
    assert ours(jobs(CASES["plain"])["plan"])[-1][1]["drill"] == "${{ inputs.drill }}"


MOST_LINES = 90
JEST = {"package.json": '{"devDependencies": {"jest": "30"}}', "a.test.js": ""}
LOCK = 'name = "pytest"\n'
PROJECTS = {
    "uv": {"uv.lock": LOCK, "test_a.py": ""},
    "pip": {"requirements-dev.txt": "pytest\n", "test_a.py": ""},
    "Poetry": {"poetry.lock": f"# generated by Poetry 2.5.0\n{LOCK}", "test_a.py": ""},
    "npm": {**JEST, "package-lock.json": ""},
    "pnpm": {**JEST, "pnpm-lock.yaml": ""},
    "Yarn": {**JEST, "yarn.lock": ""},
    "Go": {"go.mod": "module a\n", "a_test.go": ""},
    "Bundler": {"Gemfile": "gem 'rspec'\n", "spec/a_spec.rb": ""},
    ".NET": {"Shop.sln": '"test\\Shop.Tests\\Shop.Tests.csproj"'},
    "Maven": {"pom.xml": "<project>", "src/test/java/ATest.java": ""},
}


def test_workflow_of_one_suite_is_short_and_has_no_finding(tmp_path: Path, call: Init) -> None:
    texts = {}
    for name, files in PROJECTS.items():
        folder = tmp_path / name
        subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, "utf-8")
        call(folder, "--yes")
        texts[name] = (folder / ".github/workflows/ciguard.yml").read_text("utf-8")
    lines = {name: len(text.splitlines()) for name, text in texts.items()}
    assert max(lines.values()) <= MOST_LINES, lines
    for program in LINTERS:
        answer = run_linter(program, tmp_path / program, texts)
        assert answer.returncode == 0, answer.stdout + answer.stderr
