"""What an audit of a matrix ends with: the next change and command."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from conftest import Ciguard, Golden
from init.move_in_samples import NO_ADDRESS

from ciguard.audit.next_step import RESULT_OPTIONS, RESULT_PATHS, NextStep, after_workflows
from ciguard.audit.rules.base import WorkflowFile
from ciguard.workflow.actions_address import address_and_set_up
from ciguard.workflow.job_templates import ACTIONS
from ciguard.workflow.test_commands import read_tasks
from ciguard.workflow.yaml_values import load

SAMPLES = Path(__file__).parents[1] / "samples"
GUIDE = (Path(__file__).parents[2] / "docs/how-to/comment.md").read_text("utf-8")
GUIDE_YAML = re.findall(r"```yaml\n(.*?)```", GUIDE, flags=re.DOTALL)
BY_HAND = (SAMPLES / "audit/by_hand.yml").read_text("utf-8")
CI = ".github/workflows/ci.yml"
CART = ["Shop.Tests.Cart.Adds", "Shop.Tests.Cart.Removes", "Shop.Tests.Cart.Counts"]
TESTS = [*CART, "Shop.Tests.Order.Cancels"]
WALLS_S = dict(zip(TESTS, (300.0, 200.0, 100.0, 60.0), strict=True))
WORDS = ("audit", "--matrix", CI, "--tests", "tests.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / CI).parent.mkdir(parents=True)
    (tmp_path / CI).write_text(BY_HAND, "utf-8")
    listed = [{"id": name, "categories": []} for name in TESTS]
    (tmp_path / "tests.json").write_text(json.dumps(listed), "utf-8")
    (tmp_path / "durations.json").write_text(json.dumps(WALLS_S), "utf-8")
    return tmp_path


@pytest.mark.parametrize("format_", ["text", "markdown"])
def test_audit_ends_with_the_next_change(
    folder: Path, ciguard: Ciguard, golden: Golden, format_: str
) -> None:
    stored = ("--history", "history.bin")
    ciguard("history", "add", "durations.json", "--run-id", "1", *stored, cwd=folder)
    answer = ciguard(*WORDS, *stored, "--format", format_, cwd=folder, expect=0, **NO_ADDRESS)
    suffix = {"text": "txt", "markdown": "md"}[format_]
    golden(answer.stdout, SAMPLES / f"audit/next.{suffix}")


def test_shards_without_a_workflow_have_no_next_step(folder: Path, ciguard: Ciguard) -> None:
    (folder / "shards.json").write_text('[{"name": "a", "filter": "Cart"}]', "utf-8")
    words = ("audit", "--matrix", "shards.json", "--tests", "tests.json", "--format", "json")
    assert json.loads(ciguard(*words, cwd=folder).stdout)["next_step"] is None


def next_step(folder: Path, ciguard: Ciguard, workflow: str) -> Any:
    (folder / CI).write_text(workflow, "utf-8")
    answer = ciguard(*WORDS, "--format", "json", cwd=folder, expect=0, **NO_ADDRESS)
    return json.loads(answer.stdout)["next_step"]


def test_job_that_comments_is_that_of_the_guide(folder: Path, ciguard: Ciguard) -> None:
    found = next_step(folder, ciguard, BY_HAND)
    assert found["lines"] == GUIDE_YAML[1].replace('"**/*.xml"', '"results-*/**/*.trx"')
    assert [found[key] for key in ("kind", "command", "problem")] == ["comment", "", ""]
    following = next_step(folder, ciguard, f"{BY_HAND}\n{found['lines']}")
    assert following["command"] == "ciguard init"


@pytest.mark.parametrize(
    "step", ["run: ciguard guard --plan p.json", "uses: o/ciguard/actions/report@0123"]
)
def test_doctor_follows_where_jobs_plan_or_judge(folder: Path, ciguard: Ciguard, step: str) -> None:
    judging = f"{BY_HAND}\n  judge:\n    runs-on: ubuntu-latest\n    steps: [{{{step}}}]\n"
    assert next_step(folder, ciguard, judging)["command"] == "ciguard doctor"
    other = judging.replace("ciguard", "other")
    named = "{name: ciguard report, run: \"echo 'ciguard guard' # ciguard guard\"}"
    other = other.replace(f"[{{{step.replace('ciguard', 'other')}}}]", f"[{named}]")
    assert next_step(folder, ciguard, f"{other}  lint: none\n")["kind"] == "comment"


def after(text: str, makefile: str = "") -> NextStep:
    tasks = read_tasks(lambda name: makefile if name == "Makefile" else "")
    return after_workflows([WorkflowFile(CI, text, load(text, CI), tasks)], "o/ciguard@1")


@pytest.mark.parametrize("name", ["github.job }}-${{ strategy.job-index", "matrix.shard.name"])
def test_step_of_the_guide_is_found(name: str) -> None:
    assert ACTIONS["upload_artifact"] in GUIDE_YAML[0]
    step = GUIDE_YAML[0].replace("github.job }}-${{ strategy.job-index", name)
    found = after(BY_HAND[: BY_HAND.index("      - uses: actions/upload-artifact")] + step)
    assert (found.kind, found.problem) == ("comment", "")
    assert '/**/*.trx", needs' in found.lines


def test_options_are_those_of_the_guide() -> None:
    rows = re.findall(r"\| (?!mini|cargo|Google).* \| (.*`.*) \|\n", GUIDE.split("\n## ")[1])
    shown = {text for cell in rows for text in re.findall("`([^`]+)`", cell)}
    options = {line for text in RESULT_OPTIONS.values() for line in text.split("\n")}
    options |= {*RESULT_PATHS.values()}
    assert shown == {text for text in options if "the log then" not in text}


def test_address_is_read_of_the_own_table(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text('[tool.x]\nactions = "other/ciguard@1"\n', "utf-8")
    assert "other" not in address_and_set_up(tmp_path, {})[0]
    project.write_text('tool.ciguard.actions = "other/ciguard@1 # v1"', "utf-8")
    assert address_and_set_up(tmp_path, {}) == ("other/ciguard@1", "")


MATRIX = "matrix: { os: [ubuntu-24.04, macos-15] }\n    steps:"
WITHOUT_UPLOAD = BY_HAND[: BY_HAND.index("      - uses: actions/upload-artifact")]


def test_second_command_of_a_job_needs_an_artifact() -> None:
    second = "      - run: dotnet test --framework net9.0\n"
    assert "another artifact" not in after(WITHOUT_UPLOAD).fix
    assert "another artifact" in after(WITHOUT_UPLOAD + second).fix
    either = WITHOUT_UPLOAD.replace(
        "- run: dotnet test", "- if: matrix.x\n        run: dotnet test"
    )
    either += second.replace("- run", '- if: "!matrix.x"\n        run')
    assert "another artifact" not in after(either).fix
    upload = BY_HAND[len(WITHOUT_UPLOAD) :]
    other = upload.replace("results-", "net9-")
    assert "expect: 4 }" in after(BY_HAND + second + other).lines
    conditional = other.replace("- uses", "- if: matrix.x\n        uses")
    assert "expect" not in after(BY_HAND + second + conditional).lines
    for condition, is_constant in (("github.event_name == 'push'", False), ("always()", True)):
        of_job = BY_HAND.replace("    needs: build", f"    if: {condition}\n    needs: build")
        assert ("expect: 2 }" in after(of_job).lines) == is_constant


def test_tries_that_replace_the_results_of_the_first_are_named() -> None:
    found = after(f"{WITHOUT_UPLOAD}      - run: npx jest || npx jest --onlyFailures\n")
    assert "In test, a retry after || would replace the file: move it by" in found.fix
    alone = re.sub("run: dotnet test.*", "run: npx jest || npx jest", WITHOUT_UPLOAD)
    found = after(alone)
    assert (found.kind, found.command) == ("divide", "ciguard init")
    assert found.problem.startswith(f"in job test ({CI}:24), the tries after ||")


def test_options_of_node_come_before_its_files() -> None:
    for command, kind in (("node --test", "option"), ("node --test a.js", "write a result file")):
        found = after(re.sub("run: dotnet test.*", f"run: {command}", WITHOUT_UPLOAD))
        assert kind in found.fix


def test_line_of_a_recipe_is_named() -> None:
    makefile = "unit: all\n\t@echo richgo\n\trichgo test ./...\n"
    found = after(re.sub("run: dotnet test.*", "run: make unit", WITHOUT_UPLOAD), makefile)
    assert found.fix == "add the option to its tests (Makefile:3), and the step"
    assert found.lines.startswith("# richgo test ./... -json > results.json\n# call go in")


def test_further_steps_and_jobs_are_named() -> None:
    line = WITHOUT_UPLOAD.count("\n") + 1
    pair = re.sub("(run: dotnet test)", r"if: runner.os == 'Linux'\n        \1", WITHOUT_UPLOAD)
    other = "      - run: npx jest\n"
    assert f"(each further command, line {line}: another" in after(WITHOUT_UPLOAD + other).fix
    found = after(pair + other.replace("- run", "- if: runner.os != 'Linux'\n        run"))
    assert found.fix.endswith(f"; line {line + 1} also has its tests")
    plain = re.sub(r"matrix:\n.*?    steps:", MATRIX, WITHOUT_UPLOAD, flags=re.DOTALL)
    assert "${{ github.job }}-${{ matrix.os }}" in after(plain).lines
    two = after(f"{plain}  e2e:\n    runs-on: ubuntu-24.04\n    steps:\n{other}")
    assert "${{ github.job }}-${{ strategy.job-index }}" in two.lines


def test_artifacts_of_one_name_are_named() -> None:
    found = after(BY_HAND.replace("results-${{ matrix.shard.name }}", "${{ github.job }}"))
    assert found.problem == f"all combinations of job test ({CI}) upload test"
    assert "strategy.job-index" in found.fix
    found = after(f"{BY_HAND}\n  e2e:{BY_HAND.partition('  test:')[2]}")
    assert found.problem.startswith(f"jobs test and e2e ({CI}) upload results-${{{{ matrix.")
    assert "github.job" in found.fix
    computed = "matrix: ${{ fromJSON(needs.build.outputs.matrix) }}\n    steps:"
    found = after(re.sub(r"matrix:\n.*?    steps:", computed, BY_HAND, flags=re.DOTALL))
    assert found.lines.endswith('needs: "${{ toJSON(needs) }}" }\n')


@pytest.mark.parametrize("format_", ["text", "markdown", "html"])
def test_lines_to_add_are_shown_as_lines(folder: Path, ciguard: Ciguard, format_: str) -> None:
    silent = (
        BY_HAND.replace(".trx", ".log").replace("results-", "logs-").replace("--logger trx", "")
    )
    (folder / CI).write_text(silent, "utf-8")
    answer = ciguard(*WORDS, "--format", format_, cwd=folder, expect=0, **NO_ADDRESS).stdout
    assert f"Job test ({CI}:24) uploads none: add the option" in " ".join(answer.split())
    lines = [line.strip() for line in unescape(answer).splitlines()]
    step = GUIDE_YAML[0].replace("results*", "**/*.trx")
    assert {line.strip() for line in step.splitlines()} <= {*lines}
    assert not re.search(r"(\\|&#92;)n- ", answer)
