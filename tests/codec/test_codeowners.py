"""Owners of files, by GitHub's documented examples and exceptions."""

from __future__ import annotations

import time

import pytest

from ciguard.codec.codeowners import decode, find_owners

EXAMPLE = b"""\
# a comment
*       @global-1 @global-2

*.js    @js #an inline comment
*.go docs@example.com
/build/logs/ @doctocat
docs/*  docs@example.com
apps/ @octocat
/docs-site/ @site\r
**/logs @logs
/apps/github
/a/**/z.py @deep
/web/** @web
with\\ blank/ @blank
!negated.py @never
[ab].txt @never
\\#hash @never
t?st.c @question
"""
OWNERS = {
    "README.md": "@global-1 @global-2",
    "a/b.js": "@js",
    "x.go": "docs@example.com",
    "build/logs/today/a.txt": "@logs",
    "build/logs": "@logs",
    "docs/a.md": "docs@example.com",
    "docs/deep/a.md": "@global-1 @global-2",
    "docs-site/deep/a.md": "@site",
    "src/apps/a.py": "@octocat",
    "apps": "@global-1 @global-2",
    "apps/github/a.py": "",
    "apps/githubs": "@octocat",
    "deep/logs/a": "@logs",
    "a/z.py": "@deep",
    "a/b/c/z.py": "@deep",
    "b/a/z.py": "@global-1 @global-2",
    "web/a/b.ts": "@web",
    "web.py": "@global-1 @global-2",
    "x/with blank/a": "@blank",
    "negated.py": "@global-1 @global-2",
    "a.txt": "@global-1 @global-2",
    "#hash": "@global-1 @global-2",
    "src/test.c": "@question",
    "src/t/st.c": "@global-1 @global-2",
    "Readme.JS": "@global-1 @global-2",
    "line\nend.js": "@js",
}


@pytest.mark.parametrize(("path", "owners"), OWNERS.items())
def test_the_last_pattern_that_matches_names_the_owners(path: str, owners: str) -> None:
    assert find_owners(decode(EXAMPLE), path) == tuple(owners.split())


def test_configured_owners_take_precedence_over_any_bytes() -> None:
    rules = (*decode(b"\xff\0 @a\n/ @b\n* @c"), ("/tests/", ()), ("*.py", ("@d", "@e")))
    assert find_owners(rules, "tests/a.js") == ()
    assert find_owners(rules, "tests/a.py") == ("@d", "@e")
    assert find_owners(rules, "a.js") == ("@c",)
    assert find_owners((), "a") == find_owners(decode(b""), "") == ()


def test_a_pattern_that_would_take_long_does_not() -> None:
    began = time.monotonic()
    rules = decode(b"*a" * 40 + b"/" + b"**/" * 40 + b"b @a")
    assert find_owners(rules, "a" * 5_000 + "/" + "a/" * 2_000 + "c") == ()
    assert time.monotonic() - began < 5
