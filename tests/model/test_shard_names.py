"""Keys of shards, and which shard a folder is of."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from guard.fixtures import make_plan
from hypothesis import given
from hypothesis import strategies as st

from ciguard.model import Plan
from ciguard.model.shard_names import MAX_KEY, safe_keys, shard_lookup


def test_keys_are_safe_and_stay_where_they_are() -> None:
    names = [
        "Tests - NN / Layers A-M",
        "NN_1.b",
        "a/b",
        "a-b",
        "A b",
        "..",
        "日本",
        "中国",
        "x" * 99,
    ]
    assert list(safe_keys(names).items()) == [
        ("NN_1.b", "NN_1.b"),
        ("a-b", "a-b"),
        ("Tests - NN / Layers A-M", "Tests-NN-Layers-A-M"),
        ("a/b", "a-b-2"),
        ("A b", "A-b-3"),
        ("..", "shard"),
        ("日本", "shard-2"),
        ("中国", "shard-3"),
        ("x" * 99, "x" * MAX_KEY),
    ]


@given(st.lists(st.text(max_size=6) | st.sampled_from(["a", "A", "a-2", "a/2", "a 2", "-", "."])))
def test_every_name_has_a_key_of_its_own(names: list[str]) -> None:
    keys = safe_keys(names)
    assert keys.keys() == {*names}
    assert len({key.lower() for key in keys.values()}) == len(keys)
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", key) for key in keys.values())


def named_plan(**jobs: str) -> Plan:
    plan = make_plan({key: (f"{key}.t",) for key in jobs})
    return replace(plan, shards=tuple(replace(shard, job=jobs[shard.key]) for shard in plan.shards))


@pytest.mark.parametrize(
    ("folder", "shard"),
    [
        ("nn", "nn"),
        ("Tests - NN / A-M", "nn"),
        ("Tests - NN - A-M", "nn"),
        ("Tests - NN _ A-M", "nn"),
        ("NN _ A-M", "nn"),
        ("A-M", "nn"),
        ("Cart", "cart"),
        ("rt", None),
        ("Tests", None),
        ("N-Z", None),  # the end of two
    ],
)
def test_folder_is_of_the_shard_that_it_names(folder: str, shard: str | None) -> None:
    plan = named_plan(
        nn="Tests - NN / A-M", n2="Tests - NN / N-Z", o="Tests - O N-Z", cart="test (linux, Cart)"
    )
    assert shard_lookup(plan)(folder) == shard


def test_key_comes_before_the_name_of_another_job() -> None:
    plan = named_plan(a="b", b="a")
    assert [shard_lookup(plan)(name) for name in "ab"] == ["a", "b"]


def test_folder_of_an_artifact_becomes_the_key() -> None:
    plan = make_plan({"results-Orders-A-M": ("t",), "results-Cart": ("u",)})
    assert shard_lookup(plan)("results-Orders (A-M)") == "results-Orders-A-M"


def test_name_of_a_job_comes_before_the_safe_name_of_another() -> None:
    plan = make_plan({"a-b": ("t",), "a-b-2": ("u",)})
    shards = (replace(plan.shards[0], job="a/b"), replace(plan.shards[1], job="a b"))
    find = shard_lookup(replace(plan, shards=shards))
    assert [find(name) for name in ("a-b", "a/b", "a b", "a_b")] == ["a-b", "a-b", "a-b-2", "a-b"]


def test_folders_of_a_plan_without_jobs_are_keys() -> None:
    assert [shard_lookup(make_plan())(name) for name in ("01", "x 01")] == ["01", None]
