"""Each kind of finding, cause and evidence has words."""

from __future__ import annotations

import ast
from pathlib import Path
from string import Formatter

import pytest

import ciguard
from ciguard.guard.verdict import LEVELS, Finding
from ciguard.guard.wording import WORDS, finding_fix, finding_message, note_text
from ciguard.model import ENDINGS
from ciguard.render.notes import Note

PACKAGE = Path(ciguard.__file__).parent


def test_each_kind_has_words() -> None:
    calls = [
        node
        for path in PACKAGE.glob("guard/*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("Finding", "Note", "_diagnosis")
    ]
    named = [node.args[0] for node in calls if node.args]
    named += [word.value for node in calls for word in node.keywords if word.arg == "kind"]
    kinds = {node.value for node in named if isinstance(node, ast.Constant)}
    assert len(kinds) > 80
    assert kinds | LEVELS.keys() <= WORDS.keys()


def test_each_kind_with_words_exists() -> None:
    source = "".join(
        path.read_text("utf-8")
        for path in PACKAGE.rglob("*.py")
        if path.name not in ("wording.py", "state.py")
    )
    assert [kind for kind in WORDS if f'"{kind}"' not in source] == []


def test_each_ending_of_a_leg_has_advice() -> None:
    assert all(WORDS[ending].fix for ending in ENDINGS[1:])


@pytest.mark.parametrize("kind", WORDS)
def test_words_are_a_phrase_without_a_full_stop(kind: str) -> None:
    """With any fact: a name that a template holds is one that a fact may have."""
    parsed = [one for text in WORDS[kind] for one in Formatter().parse(text)]
    facts: dict[str, str | int] = {name: "x" for _, name, _, _ in parsed if name}
    counted = [name for _, name, spec, _ in parsed if name and spec not in ("", "words")]
    facts |= {**dict.fromkeys(counted, 1), "what": "result"}
    finding = Finding(kind, "01", facts=facts)
    for text in (finding_message(finding), finding_fix(finding)):
        assert not text.endswith(".")
        assert not {"[", "]"} & set(text)


def test_a_part_is_left_out_where_its_fact_is_missing() -> None:
    whole = {"damage": "r.xml: empty", "more": 2}
    assert note_text(Note("damaged", whole)).endswith("r.xml: empty and 2 more")
    alone = {**whole, "more": None}
    assert note_text(Note("damaged", alone)).endswith("r.xml: empty")


def test_a_fact_is_shown_by_its_unit() -> None:
    assert note_text(Note("job_limit", {"limit_s": 1500.0})).endswith("of 25 min 00 s")
    names = Note("empty_record_file", {"files": [f"f{number}" for number in range(7)]})
    assert note_text(names).endswith(": f0, f1, f2, f3, f4 and 2 more")


@pytest.mark.parametrize(
    ("code", "words"), [(1, "exit code 1"), (-11, "SIGSEGV"), (None, "exit code -")]
)
def test_an_exit_code_of_a_signal_is_its_name(code: int | None, words: str) -> None:
    facts = {"process": 1, "exit_code": code, "output": ""}
    assert f"ended with {words}, and" in note_text(Note("unexplained_exit", facts))


def test_the_advice_of_a_cause_is_that_of_its_finding() -> None:
    own = Finding("truncated", "01", facts={"last_s": None})
    assert "log of its job" in finding_fix(own)
    told = Finding("truncated", "01", facts={"last_s": None}, cause=Note("timeout"))
    assert finding_message(told) == "shard 01: its record is truncated: time limit exceeded"
    assert finding_fix(told) == "raise the limit, or plan more shards"


def test_lines_of_an_error_become_one_and_those_of_a_name_are_spelled_out() -> None:
    facts = {"error": "2 problems\n- a\n- b", "advice": "add to the step:\n    if: always()"}
    found = Finding("policy_unread", facts=facts)
    assert "(2 problems - a - b)" in finding_message(found)
    assert finding_fix(found) == "add to the step: if: always()"
    stale = Finding("quarantine_stale", facts={"entry": "a\nb"})
    assert r"a\nb is stale" in finding_message(stale)
