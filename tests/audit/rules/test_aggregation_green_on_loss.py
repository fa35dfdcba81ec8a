"""Aggregation jobs that miss a loss, and those that see each."""

from __future__ import annotations

from typing import Final

import pytest
from audit.workflow_findings import find, lines

RULE: Final = "aggregation-green-on-loss"
FAILURE = "contains(needs.*.result, 'failure')"
CANCELLED = "contains(needs.*.result, 'cancelled')"
BOTH = f"{FAILURE} || {CANCELLED}"


def _workflow(gate: str, before: str = "") -> str:
    """Jobs `plan`, `lint`, `test` (needs `before`) and `gate`; `gate` is indented by four."""
    needs = f"    needs: {before}\n" if before else ""
    indented = "".join(f"    {line}\n" for line in gate.strip("\n").splitlines())
    return (
        "on: push\njobs:\n  plan:\n    steps: [{run: make plan}]\n"
        "  lint:\n    steps: [{run: make lint}]\n"
        f"  test:\n{needs}    steps: [{{run: pytest}}]\n  gate:\n    name: All green\n{indented}"
    )


def _gate(condition: str, steps: str, needs: str = "[test, lint]") -> str:
    written = f"if: {condition}\n" if condition else ""
    return f"needs: {needs}\n{written}steps:\n{steps}"


def _fail_if(condition: str) -> str:
    return f"  - if: {condition}\n    run: exit 1\n"


@pytest.mark.parametrize(
    ("gate", "before", "results", "jobs"),
    [
        (_gate("always()", _fail_if(FAILURE)), "", ["cancelled"], []),
        (_gate("success() || failure()", _fail_if(FAILURE)), "", ["cancelled"], []),
        (_gate("always()", _fail_if(CANCELLED)), "", ["failure"], []),
        (_gate("always()", _fail_if(BOTH)), "plan", [], ["plan"]),
        (_gate("${{ !cancelled() }}", _fail_if(FAILURE)), "plan", ["cancelled"], ["plan"]),
        (
            _gate("always()", "  - run: |\n      echo success\n"
                  "      [ ${{ needs.test.result }} != failure ]\n"),
            "", ["cancelled"], [],
        ),
        (
            _gate("always()", f"  - run: ${{{{ ({BOTH}) && 'false' || 'true' }}}}\n"),
            "plan", [], ["plan"],
        ),
        (
            _gate("always()", "  - uses: actions/github-script@v7\n    with:\n      script: |\n"
                  "        const needs = ${{ toJSON(needs) }}\n"
                  "        if (Object.values(needs).some(n => n.result == 'failure'))\n"
                  "          core.setFailed('no')\n"),
            "", ["cancelled"], [],
        ),
    ],
)  # fmt: skip
def test_finds_what_a_gate_misses(
    gate: str, before: str, results: list[str], jobs: list[str]
) -> None:
    text = _workflow(gate, before)
    (found,) = find(RULE, text)
    assert (found.subject, found.certainty) == ("All green", "certain")
    expected = {"kind": "misses_loss", "unseen_results": results, "unseen_jobs": jobs}
    assert found.facts == expected
    assert lines(found, text)[0].startswith("if:")


@pytest.mark.parametrize(
    "steps", ["  - run: echo done\n", "  - run: |\n      printf ok\n      exit 0\n"]
)
def test_finds_a_gate_that_reads_no_result(steps: str) -> None:
    (found,) = find(RULE, _workflow(_gate("always()", steps)))
    assert (found.certainty, found.facts["kind"]) == ("certain", "ignores_results")


@pytest.mark.parametrize(
    "gate",
    [
        _gate("", "  - run: echo done\n"),
        _gate("", _fail_if(BOTH)),
        _gate("${{ !cancelled() && !failure() }}", "  - run: exit 0\n"),
        _gate("failure()", "  - run: exit 1\n"),
        _gate("", "  - uses: re-actors/alls-green@release/v1\n"
              "    with: {jobs: '${{ toJSON(needs) }}'}\n"),
    ],
)  # fmt: skip
def test_finds_a_gate_that_a_failure_skips(gate: str) -> None:
    text = _workflow(gate)
    (doubted,) = find(RULE, text)
    assert (doubted.certainty, doubted.caveat) == ("possible", "required_checks_not_known")
    assert doubted.facts["kind"] == "skipped_after_failure"
    (found,) = find(RULE, text, frozenset({"All green"}))
    assert found.certainty == "certain"
    assert find(RULE, text, frozenset({"test"})) == []


@pytest.mark.parametrize(
    ("gate", "before"),
    [
        (_gate("always()", _fail_if(BOTH)), ""),
        (_gate("always()", _fail_if(BOTH), "[test, lint, plan]"), "plan"),
        (_gate("always()", _fail_if(f"{BOTH} || contains(needs.*.result, 'skipped')")), "plan"),
        (_gate("always()", "  - run: '[ ${{ needs.test.result }} = success ]'\n"), "plan"),
        (_gate("always()", "  - run: |\n      echo '${{ toJSON(needs) }}' |"
               " jq -e 'all(.result == \"success\")'\n"), "plan"),
        (_gate("always()", "  - uses: re-actors/alls-green@release/v1\n"
               "    with: {jobs: '${{ toJSON(needs) }}'}\n"), "plan"),
    ],
)  # fmt: skip
def test_accepts_gates_that_see_each_loss(gate: str, before: str) -> None:
    assert find(RULE, _workflow(gate, before)) == []


@pytest.mark.parametrize(
    "other",
    [
        _gate("always()", "  - run: coverage combine\n"),
        _gate("always()", f"  - if: {FAILURE}\n    uses: slackapi/slack-github-action@v2\n"),
        _gate("failure()", "  - run: echo failed\n"),
        _gate("", "  - run: make publish\n"),
        "steps: [{run: echo done}]\n",
    ],
)
def test_accepts_jobs_that_decide_nothing(other: str) -> None:
    assert find(RULE, _workflow(other)) == []


def test_accepts_a_barrier_that_a_failure_skips() -> None:
    text = _workflow(_gate("", "  - run: echo done\n"))
    assert (
        find(RULE, text + "  publish:\n    needs: gate\n    steps: [{run: make publish}]\n") == []
    )


@pytest.mark.parametrize("last", ["", "  publish: {needs: gate, steps: [{run: make publish}]}\n"])
def test_finds_a_gate_without_a_look_whoever_needs_it(last: str) -> None:
    text = _workflow(_gate("always()", "  - run: echo done\n")) + last
    assert [found.facts["kind"] for found in find(RULE, text)] == ["ignores_results"]
