"""Which files a pattern means, what its path says of them, and archives that are files too."""

from __future__ import annotations

import gzip
import io
import zipfile
from typing import TYPE_CHECKING

import pytest

from ciguard.codec import placing
from ciguard.errors import InputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

JUNIT = b'<testsuite tests="1"><testcase name="a"/></testsuite>'


def zipped(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("text", "path", "names"),
    [
        ("a/*/*.trx", "a/03/r.trx", {"shard": "03"}),
        ("a/*/*.trx", "a/03/x/r.trx", None),
        ("a/**/*.trx", "a/03/r.trx", {"shard": "03"}),
        ("./a/**/*.trx", "a/03/x/y/r.trx", {"shard": "03"}),
        ("a/**/*.trx", "a/r.trx", None),
        ("a/**", "a/03/x/r.trx", {"shard": "03"}),
        ("a/results-{shard}/**/*", "a/results-A-I (2)/x/r.xml", {"shard": "A-I (2)"}),
        ("a/{shard}.xml", "a/03.xml", {"shard": "03"}),
        ("a/**/{shard}/r?.xml", "a/b/c/03/r1.xml", {"shard": "03"}),
        ("{shard}/{variant}/{suite}.trx", "1/net8.0/unit.trx", ("1", "net8.0", "unit")),
        ("{shard}/{shard}.xml", "1/1.xml", {"shard": "1"}),
        ("{shard}/{shard}.xml", "1/2.xml", None),
        ("a/[x]+{shard}.xml", "a/[x]+1.xml", {"shard": "1"}),
        ("a/res-*/*.xml", "a/res-03/r.xml", {"shard": "res-03"}),
    ],
)
def test_a_path_says_whose_the_file_is(
    text: str, path: str, names: dict[str, str] | tuple[str, ...] | None
) -> None:
    if isinstance(names, tuple):
        names = dict(zip(("shard", "variant", "suite"), names, strict=True))
    assert placing.pattern(text).names(path) == names


def test_where_a_pattern_begins() -> None:
    for text, begin in (("a/b/*/r.xml", "a/b"), ("{shard}/r.xml", ""), ("/a/b-*/c/*.xml", "/a")):
        assert placing.pattern(text).begin == begin


@pytest.mark.parametrize("text", ["a/*.xml", "a/b/r.xml", "*.xml", "{job}/r.xml", "{}/r.xml"])
def test_a_pattern_that_says_no_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"shard|placeholder"):
        placing.pattern(text)


def test_a_zip_is_the_result_files_in_it() -> None:
    files = {
        "x/r.xml": JUNIT,
        "../../up.log": gzip.compress(JUNIT),
        "empty.log": b"",
        "log.txt": b"hello",
        "inner.zip": zipped({"r.xml": JUNIT}),
    }
    found = dict(placing.members("a.zip", zipped(files)))
    assert found == {"a.zip/x/r.xml": JUNIT, "a.zip/../../up.log": files["../../up.log"]}
    assert dict(placing.members("r.xml", JUNIT)) == {"r.xml": JUNIT}


def test_zips_that_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = zipped({"r.xml": JUNIT * 50, "s.xml": JUNIT})
    wrong = bytearray(whole)
    wrong[40] ^= 0xFF
    encrypted = bytearray(zipped({"r.xml": JUNIT}))
    for place in (6, encrypted.index(b"PK\x01\x02") + 8):
        encrypted[place] |= 1
    for content in (whole[:-30], whole[:60], bytes(wrong), bytes(encrypted)):
        with pytest.raises(InputError, match="damaged zip"):
            list(placing.members("a.zip", content))
    with pytest.raises(InputError, match="no result file"):
        list(placing.members("a.zip", zipped({"log.txt": b"hello"})))
    monkeypatch.setattr(placing, "MAX_BYTES", 1 << 20)
    with pytest.raises(InputError, match="more than 1 MiB unpacked"):
        list(placing.members("a.zip", zipped({"r.xml": bytes(2 << 20)})))
    monkeypatch.setattr(placing, "MAX_MEMBERS", 1)
    with pytest.raises(InputError, match="2 files in it"):
        list(placing.members("a.zip", whole))
