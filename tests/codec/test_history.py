from __future__ import annotations

import hashlib
import json
import re
import zlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.codec.columns import BLOCK, LARGEST, CorruptData, Reader, Writer
from ciguard.codec.results.base import ExternalName
from ciguard.errors import InputError
from ciguard.history.file import (
    CODE_NAMES,
    MEASURES,
    SECONDS,
    History,
    decode,
    empty,
    encode,
    of_columns,
)
from ciguard.history.merge import merge
from ciguard.history.runs import HistoryLeg, HistoryRun, SuiteOverhead, runs_as_json
from ciguard.model import CaseKey, Runner, UnitKey

RUN = HistoryRun(
    run_id=101,
    at=datetime(2026, 11, 21, 10, tzinfo=UTC),
    sha="abc",
    parents=("p1", "p2"),
    branch="main",
    legs=(
        HistoryLeg(
            shard="01",
            job="tests (01)",
            runner=Runner(pool="linux", cpus=4, probe_s=0.31),
            overheads=(SuiteOverhead("unit", "", 1 << 20, 0.25),),
            lost_units=(UnitKey("unit", "", "lo\udc80st"),),
        ),
    ),
)


def small(**measures: list[float]) -> History:
    keys = (CaseKey("", "", "a", "a"), CaseKey("unit", "py", "b\n\udc80", "case \U0001f600"))
    codes = {
        "outcome": [1, 5],
        "ending": [1, 3],
        "measured_by": [0, 1],
        "standing": [1, 2],
        "try_number": [1, 2],
    }
    columns: dict[str, Any] = {
        "key": np.array([0, 1], np.int32),
        "run": np.zeros(2, np.int32),
        "leg": np.zeros(2, np.int32),
        **{name: np.array(column, np.uint8) for name, column in codes.items()},
        **{name: np.array(column, np.float64) for name, column in measures.items()},
    }
    return History(of_columns(columns), (RUN,), keys, {keys[1]: ExternalName("C", None, "f.py")})


def signed(head: dict[str, Any], body: bytes) -> bytes:
    """A file with a right checksum, as a malicious writer would make it."""
    rest = json.dumps(head).encode() + b"\n" + body
    return b"ciguard-history 2 " + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def opened(content: bytes) -> tuple[dict[str, Any], bytes]:
    head, _, body = content.partition(b"\n")[2].partition(b"\n")
    return json.loads(head), body


def test_history_survives_encode_and_decode() -> None:
    history = small(wall_s=[0.41, np.nan], peak_delta_bytes=[np.nan, 4096.0])
    read = decode(encode(history), "x")
    assert read.runs == (RUN,)
    assert read.keys == history.keys
    assert read.external_names == history.external_names
    for name, column in history.values.columns().items():
        np.testing.assert_array_equal(getattr(read.values, name), column, err_msg=name)
    assert read.values.wall_s[0] == 0.41
    assert not np.isnan(read.values.wall_s[0])
    assert np.isnan(read.values.wall_s[1])


def test_empty_history_survives_encode_and_decode() -> None:
    read = decode(encode(empty()), "x")
    assert (read.runs, read.keys, len(read.values)) == ((), (), 0)


def test_unmeasured_columns_take_no_memory() -> None:
    values = decode(encode(small()), "x").values
    assert all(np.isnan(getattr(values, name)).all() for name in MEASURES)
    assert all(getattr(values, name).strides == (0,) for name in MEASURES)


@given(
    st.lists(st.none() | st.integers(0, 10**15), min_size=2, max_size=2),
    st.lists(st.none() | st.integers(-LARGEST, LARGEST), min_size=2, max_size=2),
)
def test_decimals_and_integers_survive_exactly(
    micros: list[int | None], sizes: list[int | None]
) -> None:
    wall = [np.nan if item is None else item / 1e6 for item in micros]
    retained = [np.nan if item is None else float(item) for item in sizes]
    values = decode(encode(small(wall_s=wall, retained_bytes=retained)), "x").values
    np.testing.assert_array_equal(values.wall_s, wall)
    np.testing.assert_array_equal(values.retained_bytes, retained)


CONTENT = encode(small(wall_s=[0.41, 2.0], cpu_s=[0.1, np.nan]))


def test_a_file_cut_anywhere_is_an_input_error() -> None:
    for end in range(len(CONTENT)):
        with pytest.raises(InputError):
            decode(CONTENT[:end], "x")


@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_an_input_error(place: int, flip: int) -> None:
    changed = bytearray(CONTENT)
    changed[place] ^= flip
    with pytest.raises(InputError):
        decode(bytes(changed), "x")


@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=8))
def test_changed_file_with_valid_checksum_is_read_or_rejected(place: int, put: bytes) -> None:
    rest = bytearray(CONTENT.partition(b"\n")[2])
    place %= len(rest)
    rest[place : place + len(put)] = put
    signature = hashlib.sha256(rest).hexdigest().encode()
    try:
        decode(b"ciguard-history 2 " + signature + b"\n" + rest, "x")
    except InputError:
        return


@pytest.mark.parametrize(("schema", "newer"), [(1, ""), (3, "a newer "), (10, "a newer ")])
def test_another_schema_is_an_error_with_a_fix(schema: int, newer: str) -> None:
    content = CONTENT.replace(b"ciguard-history 2", b"ciguard-history %d" % schema, 1)
    with pytest.raises(InputError, match=f": {newer}.*schema {schema} is not 2") as caught:
        decode(content, "h.ciguard")
    assert caught.value.where == "h.ciguard"
    assert "newer" in caught.value.fix


def test_what_another_version_added_is_skipped_and_dropped_when_a_run_is_added() -> None:
    plain = encode(merge(empty(), small(wall_s=[0.41, 2.0])))
    head, body = opened(plain)
    runs = runs_as_json((RUN,))
    runs[0]["mood"] = {"of": "run"}
    runs[0]["legs"][0].update(mood=[1], ending="exploded")
    content = with_section("runs", runs, signed(head, body))
    head, body = opened(content)
    squeezed = zlib.compress(b"unknown")
    unknown = {"name": "mood", "bytes": len(squeezed), "raw": 7, "width": 1, "divisor": 1}
    constant = {"name": "mood.per_key", "all": 3}
    head["sections"] = [unknown, *head["sections"], constant]
    head |= {"mood": 1, "words": {**head["words"], "mood": ["good"]}}
    read = decode(signed(head, squeezed + body), "x")
    assert encode(read) == plain
    later = small(wall_s=[0.5, 2.5])
    later = replace(later, runs=(replace(RUN, run_id=102),))
    assert encode(merge(read, later)) == encode(merge(decode(plain, "x"), later))


@pytest.mark.parametrize(
    ("name", "word"), [("ending", "unknown"), ("measured_by", ""), ("standing", "")]
)
def test_unknown_word_of_another_version_becomes_a_harmless_one(name: str, word: str) -> None:
    history = small()
    head, body = opened(encode(history))
    code = int(getattr(history.values, name)[1])
    head["words"][name][code - 1] = "abacus"
    read = decode(signed(head, body), "x").values
    assert CODE_NAMES[name][getattr(read, name)[1]] == word


@pytest.mark.parametrize(
    ("change", "states"),
    [
        ({"keys": 10**9}, "keys is 1000000000"),
        ({"values": 41}, "values is 41"),
        ({"values": True}, "values is True"),
        ({"sections": 3}, "no list of sections"),
        ({"words": {"outcome": ["exploded", *"abcd"]}}, "exploded"),
        ({"words": 7}, "words of outcome"),
    ],
)
def test_a_hostile_head_is_refused(change: dict[str, Any], states: str) -> None:
    head, body = opened(CONTENT)
    with pytest.raises(InputError, match=states):
        decode(signed({**head, **change}, body), "x")


def test_unknown_enum_value_without_data_is_accepted() -> None:
    head, body = opened(CONTENT)
    suite_keys = head["words"]["measured_by"]
    assert suite_keys[:2] == ["mark", "mark_untrimmed"]
    words = {**head["words"], "measured_by": [*suite_keys[:2], "abacus", *suite_keys[2:]]}
    values = decode(signed({**head, "words": words}, body), "x").values
    np.testing.assert_array_equal(values.measured_by, decode(CONTENT, "x").values.measured_by)


@pytest.mark.parametrize(
    ("name", "change", "states"),
    [
        ("unit", {"raw": 1 << 40}, "section unit: raw"),
        ("unit", {"raw": 3}, "section unit"),
        ("run", {"all": 7}, "section run: a value is out of range"),
        ("leg", {"all": 1}, "section leg: a value is out of range"),
        ("count", {"all": 0}, "section count"),
        ("count", {"all": 21}, "section count"),
        ("count", {"all": 2}, "counts and values do not agree"),
        ("outcome", {"all": 6}, "section outcome: a value is out of range"),
        ("wall_s", {"all": -1}, "section wall_s: a value is out of range"),
        ("wall_s", {"all": 1 << 60}, "is out of range"),
        ("suite_key", {"all": 9}, "section suite_key: a value is out of range"),
        ("unit.lengths", {"all": 1 << 52}, "do not add up"),
        ("unit.lengths", {"all": -1}, "a negative length"),
    ],
)
def test_a_hostile_section_is_refused(name: str, change: dict[str, Any], states: str) -> None:
    head, body = opened(CONTENT)
    for section in head["sections"]:
        if section["name"] == name:
            section.update(change)
    with pytest.raises(InputError, match=re.escape(states)):
        decode(signed(head, body), "x")


def test_compression_bomb_is_rejected_before_decompression() -> None:
    bomb = zlib.compress(bytes(50_000_000), 9)
    entry = {"name": "b", "raw": 50_000_000 * 40, "bytes": len(bomb)}
    with pytest.raises(CorruptData, match="raw"):
        Reader({"b": (entry, bomb)}).blob("b")
    with pytest.raises(CorruptData, match="is not the 1000 bytes"):
        Reader({"b": ({**entry, "raw": 1000}, bomb)}).blob("b")


@given(
    st.lists(
        st.lists(st.integers(-(1 << 40), 1 << 40), min_size=1, max_size=5), min_size=1, max_size=8
    ),
    st.sampled_from([1, 3, 1000, 4096]),
    st.booleans(),
)
@settings(deadline=None)
def test_integers_survive_encoding_with_or_without_series(
    series: list[list[int]], factor: int, joined: bool
) -> None:
    flat = np.array([item * factor for one in series for item in one], np.int64)
    lengths = [len(one) for one in series]
    heads = np.cumsum([0, *lengths[:-1]]).astype(np.int64) if joined else None
    writer = Writer()
    writer.integers("c", flat, heads)
    body = writer.body[0] if writer.body else b""
    reader = Reader({"c": (writer.index[0], body)})
    np.testing.assert_array_equal(reader.integers("c", len(flat), heads), flat)
    assert writer.index[0].get("divisor", factor) % factor == 0


@pytest.mark.parametrize("joined", [True, False])
def test_column_of_several_blocks_survives_encoding(joined: bool) -> None:
    """Series of 1 to 20 values, so that no block ends where it would without them."""
    random = np.random.default_rng(3)
    lengths = random.integers(1, 21, 2 * BLOCK // 10)
    flat = random.integers(-(1 << 30), 1 << 30, int(lengths.sum()))
    assert len(flat) > 2 * BLOCK
    heads = np.cumsum(lengths) - lengths if joined else None
    writer = Writer()
    writer.integers("c", flat, heads)
    reader = Reader({"c": (writer.index[0], writer.body[0])})
    np.testing.assert_array_equal(reader.integers("c", len(flat), heads), flat)


def test_divisor_estimated_from_first_values_is_corrected_by_last() -> None:
    for last, divisor in ((6, 2), (4096, 4096), (7, 1)):
        writer = Writer()
        flat = np.array([*[0] * 50, *[4096, 8192] * 50, last], np.int64)
        writer.integers("c", flat)
        assert writer.index[0]["divisor"] == divisor
        reader = Reader({"c": (writer.index[0], writer.body[0])})
        np.testing.assert_array_equal(reader.integers("c", len(flat)), flat)


@pytest.mark.parametrize(
    ("entry", "states"),
    [
        ({"all": 0.5}, "all is 0.5"),
        ({"all": True}, "all is True"),
        ({"width": 9, "divisor": 1}, "width is 9"),
        ({"width": 1, "divisor": -1}, "divisor is -1"),
        ({"width": 1, "divisor": 1}, "raw is None"),
        ({"width": 1, "divisor": 1 << 53, "raw": 3}, "a value is out of range"),
        ({"width": 1, "divisor": 1, "raw": 2}, "2 bytes where 3 are needed"),
    ],
)
def test_a_hostile_column_is_refused(entry: dict[str, Any], states: str) -> None:
    with pytest.raises(CorruptData, match=states):
        Reader({"c": (entry, zlib.compress(b"abc"))}).integers("c", 3)


def test_invalid_text_json_or_zlib_is_damage() -> None:
    def section(raw: bytes) -> tuple[dict[str, int], bytes]:
        return {"raw": len(raw)}, zlib.compress(raw)

    reader = Reader(
        {
            "t.lengths": ({"all": 1}, b""),
            "t": section(b"\xff"),
            "j": section(b"{"),
            "deep": section(b"[" * 100_000),
            "z": ({"raw": 3}, b"abc"),
        }
    )
    with pytest.raises(CorruptData, match="section t"):
        reader.texts("t", 1)
    for name in ("j", "deep"):
        with pytest.raises(CorruptData, match="no JSON"):
            reader.json(name)
    for read in (reader.json, reader.blob):
        with pytest.raises(CorruptData, match="section z"):
            read("z")
    nothing = Reader({"c": ({"width": 1, "divisor": 1, "raw": 0}, zlib.compress(b""))})
    assert nothing.integers("c", 0).tolist() == []


@given(st.lists(st.text(st.characters(), max_size=20) | st.none(), max_size=20))
@settings(deadline=None)
def test_optional_texts_survive_encoding(texts: list[str | None]) -> None:
    writer = Writer()
    writer.optional_texts("t", texts)
    bodies = iter(writer.body)
    sections = {
        entry["name"]: (entry, next(bodies) if "bytes" in entry else b"") for entry in writer.index
    }
    assert Reader(sections).optional_texts("t", len(texts)) == texts


def test_seconds_are_rounded_to_microseconds_once() -> None:
    once = encode(small(**{name: [1 / 3, 2e-7] for name in SECONDS}))
    read = decode(once, "x")
    assert read.values.wall_s.tolist() == [0.333333, 0.0]
    assert encode(read) == once


def with_section(name: str, content: Any, file: bytes = CONTENT) -> bytes:
    """The file with another JSON in one section, rightly compressed and signed."""
    head, body = opened(file)
    parts, start = [], 0
    for section in head["sections"]:
        size = section.get("bytes", 0)
        parts.append(body[start : start + size])
        start += size
        if section["name"] == name:
            raw = json.dumps(content).encode()
            parts[-1] = zlib.compress(raw)
            section.update(raw=len(raw), bytes=len(parts[-1]))
    return signed(head, b"".join(parts))


LEG = {"shard": "01", "ending": "completed"}


@pytest.mark.parametrize(
    ("runs", "states"),
    [
        (7, "expected a list"),
        ([{"sha": "x"}], "run_id is missing"),
        ([{"run_id": 1, "at": "noon"}], "at: expected a time"),
        ([{"run_id": 1, "at": "2026-11-21T10:00:00"}], "with its zone"),
        ([{"run_id": 1, "at": 5}], "at: expected a time"),
        ([{"run_id": 2}, {"run_id": 1}], "runs out of order"),
        ([{"run_id": 1}, {"run_id": 1, "run_attempt": 2}], "a run twice"),
        ([{"run_id": 1, "legs": [LEG, LEG]}], "a shard twice"),
        ([{"run_id": 1, "legs": [{**LEG, "complete": "yes"}]}], "complete: expected true"),
        ([{"run_id": 1, "legs": [{**LEG, "lost_units": "all"}]}], "lost_units: expected a list"),
        (
            [{"run_id": 1, "legs": [{**LEG, "lost_units": [["a"]]}]}],
            "expected suite, variant and test",
        ),
        ([{"run_id": 1, "legs": [{**LEG, "wall_s": -1}]}], "wall_s: expected a number >= 0"),
        ([{"run_id": 1, "legs": [{**LEG, "ending": 7}]}], "ending: expected text"),
        ([{"run_id": 1}], "section leg: a value is out of range"),
    ],
)
def test_hostile_runs_are_refused(runs: Any, states: str) -> None:
    with pytest.raises(InputError, match=re.escape(states)):
        decode(with_section("runs", runs), "x")


@pytest.mark.parametrize(
    ("suite_keys", "states"),
    [
        (7, "suite_keys is no list"),
        ([["a"]], "suite_keys is no list"),
        ([["a", 1]], "suite_keys is no list"),
        ([["", ""]], "section suite_key: a value is out of range"),
        ([["unit", "py"], ["", ""]], "keys out of order"),
    ],
)
def test_hostile_suites_and_variants_are_refused(suite_keys: Any, states: str) -> None:
    with pytest.raises(InputError, match=states):
        decode(with_section("suite_keys", suite_keys), "x")


def test_missing_section_and_extra_bytes_are_errors() -> None:
    head, body = opened(CONTENT)
    fewer = [section for section in head["sections"] if section["name"] != "leg"]
    with pytest.raises(InputError, match="no section leg"):
        decode(signed({**head, "sections": fewer}, body), "x")
    with pytest.raises(InputError, match="belong to no section"):
        decode(signed(head, body + b"more"), "x")
    with pytest.raises(InputError, match="without a name"):
        decode(signed({**head, "sections": [{}]}, body), "x")
    with pytest.raises(InputError, match="no head"):
        decode(signed([], b""), "x")  # type: ignore[arg-type]


def test_runs_of_a_key_must_be_ascending() -> None:
    two = tuple(HistoryRun(number, legs=RUN.legs) for number in (1, 2))
    history = small()
    twice = of_columns(
        {
            **{name: history.values.columns()[name] for name in ("leg", "outcome", "ending")},
            **{name: history.values.columns()[name] for name in ("measured_by", "try_number")},
            "key": np.zeros(2, np.int32),
            "run": np.array([1, 0], np.int32),
        }
    )
    with pytest.raises(InputError, match="runs of a key out of order"):
        decode(encode(History(twice, two, history.keys[:1])), "x")
