from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.config.declared_memory import MAX_LENGTH, Need, match_needs, parse_size
from ciguard.config.file import FILE, parse
from ciguard.config.sections import size_bytes
from ciguard.config.suites import gpu_bytes_of, needs_of
from ciguard.errors import CiguardError

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("150MiB", 150 * MIB),
        ("1.5 GiB", 1536 * MIB),
        ("734003200", 734003200),
        ("4GiB + 2*(1GiB + 512MiB)", 7 * GIB),
        ("4GiB + 2*1GiB + 512MiB", 6 * GIB + 512 * MIB),
        ("4GiB + checkpointed(28, 150MiB, 2)", 4 * GIB + 16 * 150 * MIB),
        ("checkpointed(0, 150MiB, 2)", 0),
        ("checkpointed(7, 10, 2)", 60),
        ("checkpointed(2, 10, 4)", 30),
        ("checkpointed(2*14, 100MiB + 50MiB, 2)", 16 * 150 * MIB),
        ("sharded(22GiB, 4)", 5632 * MIB),
        ("sharded(10, 3)", 4),
        ("1GiB + sharded(22GiB, 4)", 6656 * MIB),
        ("sharded(checkpointed(28, 150MiB, 2), 4)", 600 * MIB),
    ],
)
def test_expression_has_its_value(text: str, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize(
    ("text", "what"),
    [
        *(
            (text, "expected sizes such as 4GiB, with +, *, parentheses")
            for text in (
                *("", "4GiB +", "4GiB 2GiB", "4GiB - 1GiB", "(1GiB + 2", "chekpointed(1, 2, 3)"),
                *("checkpointed(28, 1MiB)", "sharded(22GiB, 4, 5)", "True", "'4GiB'", "-1"),
            )
        ),
        ("4GiB + 3TiB", "no unit 'TiB'; there are B, KB, MB, GB, KiB, MiB, GiB"),
        ("checkpointed(28, 1MiB, 0)", "expected a whole number of at least 1 for k"),
        ("checkpointed(1.5, 1MiB, 2)", "expected a whole number of at least 0 for n"),
        ("(" * (MAX_LENGTH + 1), "at most 200 characters"),
        ("1024*1024*1024GiB", "more than 1 PiB"),
    ],
)
def test_mistake_says_what_is_expected(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)):
        parse_size(text)


@given(st.text("0123456789.()+*, GiBMchekpointdsar", max_size=MAX_LENGTH) | st.just("(" * 200))
def test_any_text_is_a_size_or_a_mistake(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse_size(text) >= 0


@given(st.integers(0, 10**6), st.sampled_from(["", "B", "KB", "MiB", " GiB"]))
def test_size_is_read_as_all_sizes_of_the_configuration(number: int, unit: str) -> None:
    assert parse_size(f"{number}{unit}") == size_bytes(f"{number}{unit}")


def test_first_matching_entry_of_the_suite_counts() -> None:
    needs = [Need(units, 1) for units in ("a/*", "*[x]", "*")]
    units = [("s", "", unit) for unit in ("a/1", "b[x]", "*[x]", "bx")] + [("other", "", "a/1")]
    assert match_needs(units, {"s": needs}) == {
        0: needs[0],
        1: needs[2],
        2: needs[1],
        3: needs[1],
    }, "as `exclude`: fnmatch, or the id itself"


CONFIGURED = """
[[suite.unit.needs]]
units = "tests/diffusion/*"
memory = "4GiB + checkpointed(28, 150MiB, 2)"
gpu = "sharded(22GiB, 4)"
[[suite.unit.needs]]
units = "*"
memory = 734003200
[pool.gpu]
gpu_memory = "24GiB"
[pool.cpu]
"""


def test_configuration_declares_needs_and_devices() -> None:
    config = parse({FILE: CONFIGURED.encode()}, {})
    first, second = needs_of(config)["unit"]
    assert (first.memory, first.gpu) == (
        parse_size("4GiB + checkpointed(28, 150MiB, 2)"),
        parse_size("sharded(22GiB, 4)"),
    )
    assert second == Need("*", parse_size("734003200"))
    assert gpu_bytes_of(config, ["cpu", "gpu", "ubuntu-24.04"]) == {"gpu": 24 * GIB}


def test_all_mistakes_of_needs_are_reported_with_their_keys() -> None:
    text = """
        [[suite.a.needs]]
        units = "x"
        memory = "4GiB + chekpointed(28, 150MiB, 2)"
        gp = 1
        [[suite.a.needs]]
        units = ""
        gpu = "sharded(22GiB, 4"
    """
    with pytest.raises(CiguardError) as raised:
        parse({FILE: text.encode()}, {})
    output = str(raised.value)
    assert "suite.a.needs.0.memory: expected sizes such as 4GiB" in output
    assert "suite.a.needs.0.gp: unknown key\n  fix: did you mean gpu?" in output
    assert "suite.a.needs.1.units: expected text that is not empty" in output
    assert "suite.a.needs.1.gpu: expected sizes" in output
    with pytest.raises(CiguardError, match=r"suite\.a\.needs\.0: declares nothing"):
        parse({FILE: b'[[suite.a.needs]]\nunits = "x"\n'}, {})
