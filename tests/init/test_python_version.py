"""Which Python a project's requires-python leads to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from ciguard.init.toolchains import SUPPORTED, UNSUPPORTED, lowest_allowed, pinned

VERSION = st.builds(
    ".".join, st.tuples(st.just("3"), st.integers(7, 17).map(str), st.sampled_from(["0", "4"]))
)
CLAUSE = st.one_of(
    st.builds("{}{}".format, st.sampled_from([">=", "<=", ">", "<", "~=", "!="]), VERSION),
    st.builds("{}3.{}.*".format, st.sampled_from(["==", "!="]), st.integers(7, 17)),
    st.builds("{}3.{}".format, st.sampled_from([">=", "<", "~="]), st.integers(7, 17)),
)


@given(st.lists(CLAUSE, min_size=1, max_size=3).map(", ".join))
def test_lowest_version_is_the_first_that_packaging_allows(specifiers: str) -> None:
    allowed = SpecifierSet(specifiers)
    fitting = [f"3.{minor}" for minor in (*SUPPORTED, *UNSUPPORTED) if f"3.{minor}.99" in allowed]
    assert lowest_allowed(specifiers) == next(iter(fitting), "")


@pytest.mark.parametrize(
    ("constraint", "version"),
    [
        ("^3.13", "3.13"),
        ("~3.12", "3.12"),
        ("^3.8 || ^4", "3.11"),
        (">=3.9,<3.11", "3.10"),
        ("*", "3.11"),
        ("^2.7", ""),
        ("", ""),
        ("snakes", ""),
    ],
)
def test_lowest_version_of_a_poetry_constraint(constraint: str, version: str) -> None:
    assert lowest_allowed(constraint) == version


@pytest.mark.parametrize(
    ("text", "version"),
    [("3.13\n", "3.13"), ("3.12.1", "3.12.1"), ("pypy3.10", ""), ("3.8\n3.9", "")],
)
def test_version_file_counts_if_it_names_one_cpython(text: str, version: str) -> None:
    assert pinned(text) == version
