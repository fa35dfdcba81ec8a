"""Which files a pattern means, what its path says of them, and archives that are files too."""

from __future__ import annotations

import gzip
import re

import pytest
from codec.hostile_zips import HOSTILE
from fakegithub.actions import zipped

from ciguard.codec.archive import SIGNATURE
from ciguard.codec.results import formats, result_patterns
from ciguard.errors import InputError, UsageError

JUNIT = b'<testsuite tests="1"><testcase name="a"/></testsuite>'


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
def test_path_gives_shard_variant_and_suite(
    text: str, path: str, names: dict[str, str] | tuple[str, ...] | None
) -> None:
    if isinstance(names, tuple):
        names = dict(zip(("shard", "variant", "suite"), names, strict=True))
    assert result_patterns.pattern(text).match(path) == names


def test_pattern_base_folder() -> None:
    for text, begin in (("a/b/*/r.xml", "a/b"), ("{shard}/r.xml", ""), ("/a/b-*/c/*.xml", "/a")):
        assert result_patterns.pattern(text).begin == begin


@pytest.mark.parametrize("text", ["a/*.xml", "a/b/r.xml", "*.xml", "{job}/r.xml", "{}/r.xml"])
def test_pattern_without_a_shard_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match=r"shard|placeholder"):
        result_patterns.pattern(text)


def test_zip_gives_the_result_files_in_it() -> None:
    files = {
        "x/r.xml": JUNIT,
        "y/up.log": gzip.compress(JUNIT, mtime=0),
        "empty.log": b"",
        "log.txt": b"hello",
        "inner.zip": zipped({"r.xml": JUNIT}),
    }
    found = dict(formats.result_members("a.zip", zipped(files)))
    assert found == {"a.zip/x/r.xml": JUNIT, "a.zip/y/up.log": files["y/up.log"]}
    assert dict(formats.result_members("r.xml", JUNIT)) == {"r.xml": JUNIT}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("net471.trx", b""),
        ("net471.trx", b"hello"),
        ("net471.trx", b"<html></html>"),
        ("r.xml", b"hello"),
        ("r.xml", b'<?xml version="1.0"?>'),
        ("r.xml", b"<!-- of a job"),
        ("TestResult.xml", b"<test-run result='Failed'/>"),
        ("r.xml.gz", b""),
        ("r.xml.gz", gzip.compress(b"", mtime=0)),
        ("r.gz", gzip.compress(JUNIT, mtime=0)[:9]),
        ("r.log", gzip.compress(JUNIT, mtime=0)[:9]),
    ],
)
def test_possible_result_files_in_a_zip_are_not_skipped(name: str, content: bytes) -> None:
    found = dict(formats.result_members("a.zip", zipped({"other.xml": JUNIT, name: content})))
    assert found == {"a.zip/other.xml": JUNIT, f"a.zip/{name}": content}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("out.txt", b""),
        ("stderr.log.gz", gzip.compress(b"", mtime=0)),
        ("app.log.gz", gzip.compress(b"hello", mtime=0)),
        ("coverage.xml", b'<?xml version="1.0"?><coverage line-rate="1"/>'),
        ("index.html", b"<!DOCTYPE html><html></html>"),
        ("notes.md", b"<!-- draft -->\n# Notes"),
        ("shot.png", b"\x89PNG\r\n\x1a\n"),
        ("durations.json", b'{"a": 1}'),
    ],
)
def test_other_files_in_a_zip_are_skipped(name: str, content: bytes) -> None:
    found = dict(formats.result_members("a.zip", zipped({name: content, "r.xml": JUNIT})))
    assert found == {"a.zip/r.xml": JUNIT}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_zips_are_rejected(name: str) -> None:
    content, output = HOSTILE[name]
    if content.startswith(SIGNATURE):
        with pytest.raises(InputError, match=re.escape(output)):
            list(formats.result_members("a.zip", content))


def test_zip_without_result_files_is_rejected() -> None:
    with pytest.raises(InputError, match="no result file"):
        list(formats.result_members("a.zip", zipped({"log.txt": b"hello"})))


@pytest.mark.parametrize(
    ("text", "folders", "others"),
    [
        ("results-{shard}/*.xml", ["results-03", "results-a b"], ["results-", "old-results-03"]),
        ("{shard}/**/*.trx", ["03", "coverage"], [""]),
        ("**/{shard}.xml", ["03", ""], []),
        ("out/{shard}.xml", ["out"], ["out2"]),
        ("./r*/**", ["r", "r-1"], ["x"]),
    ],
)
def test_folders_that_can_hold_a_match(text: str, folders: list[str], others: list[str]) -> None:
    found = result_patterns.pattern(text)
    assert [one for one in (*folders, *others) if found.may_match_below(one)] == folders
