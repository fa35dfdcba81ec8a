from __future__ import annotations

import gzip
import io
import json
from dataclasses import asdict
from pathlib import Path

import pytest
from conftest import Golden

from ciguard.codec import inventory_file
from ciguard.codec.inventory_file import InventoryUnit
from ciguard.codec.unpack_limits import gunzip
from ciguard.errors import InputError
from ciguard.model import UnitKey

SAMPLES = Path(__file__).parents[1] / "samples" / "inventory"


def read(content: bytes | str) -> inventory_file.Inventory:
    raw = content.encode() if isinstance(content, str) else content
    return inventory_file.read(gunzip(io.BytesIO(raw)), "inv")


@pytest.mark.parametrize("case", sorted(SAMPLES.iterdir()), ids=lambda case: case.name)
def test_samples(case: Path, golden: Golden) -> None:
    found = read(gzip.compress((case / "input.txt").read_bytes()))
    lines = [json.dumps(asdict(unit)) for unit in found.units]
    lines.append(json.dumps({"repeated": found.repeated}))
    golden("\n".join(lines) + "\n", case / "expected.json")


def test_one_unit_per_line() -> None:
    text = '\ufeffa.py::t[x y]\r\n\n  \nb.py::"q"\N{LINE SEPARATOR}\U0001f600\n' + "x" * 5000
    assert [unit.unit for unit in read(text).units] == [
        "a.py::t[x y]",
        'b.py::"q"\N{LINE SEPARATOR}\U0001f600',
        "x" * 5000,
    ]


def test_json_list_and_json_lines_plain_or_gzipped() -> None:
    entries = [
        {"unit": "a\nb", "suite": "s", "variant": "v", "file": "f.py", "categories": ["slow"]},
        {"unit": "\udc80", "more": 1},
    ]
    expected = (InventoryUnit("a\nb", "s", "v", "f.py", ("slow",)), InventoryUnit("\udc80"))
    listed = json.dumps(entries, indent=2)
    lines = "\n".join(map(json.dumps, entries))
    for text in (listed, lines):
        assert read(text).units == expected
        assert read(gzip.compress(text.encode())).units == expected
    assert read('["a", "b"]').units == (InventoryUnit("a"), InventoryUnit("b"))


def test_empty_inventory_is_valid() -> None:
    for text in ("", "\n\n", "[]", " [ ] "):
        assert read(text).units == ()


def test_repeated_unit_counts_once_and_is_reported() -> None:
    found = read('a\nb\na\n{"unit": "a", "suite": "s"}\na')
    assert [unit.key for unit in found.units] == [
        UnitKey("", "", "a"),
        UnitKey("", "", "b"),
        UnitKey("s", "", "a"),
    ]
    assert found.repeated == (UnitKey("", "", "a"), UnitKey("", "", "a"))


@pytest.mark.parametrize(
    ("text", "where", "states"),
    [
        ("[1]", "inv: [0]", "expected an object"),
        ('["ok", {"suite": "s"}]', "inv: [1]", "unit is missing"),
        ('[""]', "inv: [0]", "`unit` is empty"),
        ('[{"unit": 3}]', "inv: [0]", "unit: expected text"),
        ('a\n{"unit": "b"', "inv:2", "no JSON"),
        ("[", "inv", "no JSON"),
        ("[" * 100_000, "inv", "no JSON"),
        (b"\xff\xfea", "inv", "no UTF-8"),
    ],
)
def test_invalid_inventory_is_an_error_with_its_position(
    text: str | bytes, where: str, states: str
) -> None:
    with pytest.raises(InputError, match=states) as caught:
        read(text)
    assert caught.value.where == where


def test_units_listed_by_shard() -> None:
    found = read('{"A-I": ["a", {"unit": "b", "suite": "s"}], "J-Z": ["a"], "none": []}')
    assert found.units == (
        InventoryUnit("a", shard="A-I"),
        InventoryUnit("b", "s", shard="A-I"),
        InventoryUnit("a", shard="J-Z"),
    )
    assert (found.repeated, found.empty) == ((), ("none",))
    lines = '{"unit": "a", "shard": "1"}\n{"unit": "a", "shard": "1"}\n{"unit": "a", "shard": "2"}'
    assert [unit.shard for unit in read(lines).units] == ["1", "2"]
    assert read(lines).repeated == (UnitKey("", "", "a"),)
    assert read('{"unit": "a", "categories": ["x"]}').units == (
        InventoryUnit("a", categories=("x",)),
    )


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "x" * 101])
def test_invalid_shard_name_is_rejected(name: str) -> None:
    for text in (json.dumps({name: ["a"]}), json.dumps([{"unit": "a", "shard": name}])):
        with pytest.raises(InputError, match="no name of a shard"):
            read(text)
