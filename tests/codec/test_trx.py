from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.codec import trx
from ciguard.codec.base import root_of, unpacked
from ciguard.codec.formats import FORMATS, format_of
from ciguard.errors import InputError

if TYPE_CHECKING:
    from ciguard.model import Result

SAMPLES = Path(__file__).parents[1] / "samples" / "trx"
WHOLE = (SAMPLES / "theory_and_outcomes" / "input.trx").read_bytes()


def read_until_error(content: bytes) -> tuple[list[Result], InputError | None]:
    found: list[Result] = []
    try:
        found.extend(trx.read(unpacked(io.BytesIO(content)), "r.trx"))
    except InputError as error:
        return found, error
    return found, None


def test_every_outcome_of_the_format_has_a_meaning() -> None:
    # TestOutcome of VSTest's TrxLogger, in its order.
    names = (
        "Error Failed Timeout Aborted Inconclusive PassedButRunAborted NotRunnable NotExecuted "
        "Disconnected Warning Passed Completed InProgress Pending"
    )
    for name in names.split():
        result = f'<UnitTestResult testName="t" outcome="{name}"/>'
        (found,), _ = read_until_error(f"<TestRun><Results>{result}</Results></TestRun>".encode())
        assert found.unit == "t"


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_it_is_known_by_its_content(pack: type[bytes]) -> None:
    assert format_of(unpacked(io.BytesIO(pack(WHOLE))), "x.json") is FORMATS["trx"]
    found, error = read_until_error(pack(WHOLE))
    assert (len(found), error) == (9, None)


@pytest.mark.parametrize(
    "attack",
    [
        b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><TestRun name="&e;"/>',
        b'<!DOCTYPE TestRun SYSTEM "http://localhost/x.dtd"><TestRun/>',
    ],
)
def test_entities_and_document_types_are_refused(attack: bytes) -> None:
    _, error = read_until_error(attack)
    assert error is not None
    assert "document type or an entity" in error.what
    assert error.where.startswith("r.trx:1:")


@pytest.mark.parametrize(
    ("head", "root"),
    [
        (b"\xef\xbb\xbf <?xml version='1.0'?>\n<!-- <testsuite> -->\n<TestRun id='1'>", "TestRun"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]>\n<a/>', "a"),
        (b"<!-- " + b"long " * 2000, ""),
        (b"<!-- " + b"long " * 20 + b"<testsuite>", "testsuite"),
        (b"<!---->" * 500, ""),
        (b'{"a": 1}', ""),
        ("<TestRun/>".encode("utf-16"), "TestRun"),
    ],
)
def test_the_first_element_counts(head: bytes, root: str) -> None:
    assert root_of(head) == root


def test_a_file_cut_anywhere_is_never_whole() -> None:
    for end in range(1, len(WHOLE.rstrip()), 97):
        found, error = read_until_error(WHOLE[:end])
        assert error is not None
        assert len(found) <= 9


@given(st.binary(max_size=300), st.integers(0, 5000))
@settings(deadline=None, max_examples=50)
def test_any_bytes_in_any_place_give_results_or_an_input_error(put: bytes, place: int) -> None:
    read_until_error(WHOLE[:place] + put + WHOLE[place:])


def test_ten_thousand_documents_in_one_file_are_enough() -> None:
    found, error = read_until_error(b"<TestRun/>" * 10_001)
    assert found == []
    assert error is not None
    assert "10,000 documents" in error.what
