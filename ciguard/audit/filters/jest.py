"""Filters by Jest's arguments: patterns of paths, ignored patterns, `--shard`. Pure.

A test is a file here. A pattern is a regular expression, searched without case in the path from
the root folder and in the absolute path; `./a` begins at the root. Matches of a folder above the
root are not considered. `--shard=1/3` takes a third of the files by the SHA-1 of their path from
the root folder. Source: @jest/pattern and @jest/test-sequencer 30.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from typing import TYPE_CHECKING, Final

from ciguard.audit.filters.expression import (
    And,
    Argument,
    Expression,
    Not,
    Or,
    Selection,
    Term,
    set_of,
)
from ciguard.audit.filters.words import Word, arguments_of, words
from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.audit.test_set import TestSet

# Frequent options that select no tests. Any other option makes the selection unknown.
_FLAGS: Final = frozenset(
    {"--ci", "--coverage", "--silent", "--verbose", "--runInBand", "-i", "--detectOpenHandles"}
    | {"--forceExit", "--cache", "--passWithNoTests", "--json", "--colors", "--bail", "-b"}
    | {"--logHeapUsage", "--collectCoverage", "--errorOnDeprecated", "--updateSnapshot", "-u"}
    | {"--expand", "-e", "--noStackTrace", "--debug", "--color", "--workerThreads", "--all"}
    | {"--clearMocks", "--resetMocks", "--restoreMocks", "--resetModules", "--injectGlobals"}
    | {"--detectLeaks", "--randomize", "--showSeed", "--useStderr", "--testLocationInResults"}
    | {"--watchman", "--notify", "--automock", "--waitForUnhandledRejections"}
    | {"--noCache", "--noCoverage", "--noWatchman", "--watch=false", "--watchAll=false"}
)
_WITH_VALUE: Final = frozenset(
    {"--maxWorkers", "-w", "--config", "-c", "--testTimeout", "--outputFile", "--seed", "--env"}
    | {"--coverageDirectory", "--workerIdleMemoryLimit", "--cacheDirectory", "--maxConcurrency"}
    | {"--coverageProvider", "--collectCoverageFrom", "--coverageThreshold", "--globals"}
    | {"--globalSetup", "--globalTeardown", "--moduleNameMapper", "--openHandlesTimeout"}
    | {"--testEnvironment", "--testEnvironmentOptions", "--testFailureExitCode", "--testRunner"}
    | {"--testResultsProcessor", "--transform", "--notifyMode", "--workerGracefulExitTimeout"}
)
# Each takes every word up to the next option; "" for those that select no test.
_LISTS: Final = {
    "--testPathPattern": "pattern",
    "--testPathPatterns": "pattern",
    "--testPathIgnorePatterns": "ignore",
    **dict.fromkeys(("--reporters", "--coverageReporters", "--coveragePathIgnorePatterns"), ""),
    **dict.fromkeys(("--setupFiles", "--setupFilesAfterEnv", "--snapshotSerializers"), ""),
    **dict.fromkeys(("--transformIgnorePatterns", "--unmockedModulePathPatterns"), ""),
}
_HYPHEN: Final = re.compile(r"(?<=[a-zA-Z])-([a-z])")
_PROGRAMS: Final = frozenset({"jest", "jest.js"})
_SHARD: Final = re.compile(r"(\d{1,9})/(\d{1,9})")


def find_filter(words: Sequence[str]) -> str:
    """Return the arguments of Jest."""
    return arguments_of(words, _PROGRAMS)


def parse(text: str, where: str) -> Expression:
    """Parse the arguments of a command; without a pattern, every file is selected.

    Raises:
        InputError: a pattern that is no regular expression, or a malformed `--shard`.
    """
    paths: list[Expression] = []
    exclusions: list[Expression] = []
    shard: Term | None = None
    for kind, word in _arguments(text):
        term = Term(Argument(kind, word.text), word.start, word.end)
        if kind == "unknown":  # the next word may be its value, or a pattern
            return term
        _check(kind, word.text, where)
        if kind == "pattern":
            paths.append(term)
        elif kind == "shard":
            shard = term
        else:
            exclusions.append(Not(term))
    chosen = And((*([Or(tuple(paths))] if paths else []), *exclusions))
    if shard is None:
        return chosen
    if paths or exclusions:  # a share of the chosen files, not of all files
        shard = Term(Argument("unknown", "--shard"), shard.start, shard.end)
    return And((*chosen.parts, shard))


def _arguments(text: str) -> Iterator[tuple[str, Word]]:
    queue = deque(words(text))
    while queue:
        word = queue.popleft()
        option, equals, value = word.text.partition("=")
        # yargs takes `--run-in-band` for `--runInBand`.
        option = _HYPHEN.sub(lambda match: match[1].upper(), option)
        values = [word._replace(text=value)] if equals else []
        if word.text in ("true", "false"):  # perhaps the value of the option before
            yield "unknown", word
        elif not word.text.startswith("-"):
            yield "pattern", word
        elif option in _LISTS:
            while queue and not queue[0].text.startswith("-"):
                values.append(queue.popleft())
            yield from ((kind, item) for item in values if (kind := _LISTS[option]))
        elif option in _WITH_VALUE or option == "--shard":
            if not equals:
                values.append(queue.popleft() if queue else word._replace(text=""))
            if option == "--shard":
                yield "shard", values[0]
        elif option not in _FLAGS and f"{option}={value}" not in _FLAGS:
            yield "unknown", word


def _check(kind: str, value: str, where: str) -> None:
    if kind == "shard":
        share = _SHARD.fullmatch(value)
        if share is None or not 1 <= int(share[1]) <= int(share[2]):
            fix = "write it as --shard=1/3"
            raise InputError(f"no share: --shard={value:.40}", where=where, fix=fix)
    elif kind in ("pattern", "ignore"):
        try:
            re.compile(value)
        except re.error as error:
            what = f"no regular expression: {value!r:.100}: {error}"
            raise InputError(what, where=where, fix="write a regular expression") from None


def lookup(term: Term, tests: TestSet) -> Selection:
    """Return the files that a term selects.

    If the list has absolute paths, the root folder is not known, and so neither the files of a
    share nor those of a pattern `./a` or `^a`.
    """
    kind, value = term.condition
    paths = [unit.unit for unit in tests.units]
    is_absolute = any(path.startswith("/") or path[1:2] == ":" for path in paths)
    anchored = kind == "pattern" and value.startswith(("./", "^"))
    if kind == "unknown" or (is_absolute and (kind == "shard" or anchored)):
        return Selection(0, tests.everything)
    if kind == "shard":
        members = set_of(_share(paths, *map(int, value.split("/"))), len(paths))
        return Selection(members, members)
    if kind == "ignore":
        ignored = re.compile(value)
        return tests.where(lambda unit: ignored.search(f"/{unit.unit}") is not None)
    search = re.compile(re.sub(r"^\./", "^", value), re.IGNORECASE).search
    return tests.where(lambda unit: bool(search(unit.unit) or search(f"/{unit.unit}")))


def _share(paths: Sequence[str], number: int, count: int) -> list[int]:
    """Return the positions of the files of share `number`, from 1; earlier shares are larger."""
    hashes = {at: hashlib.sha1(path.encode()).hexdigest() for at, path in enumerate(paths)}
    ordered = sorted(hashes, key=hashes.__getitem__)
    size, remainder = divmod(len(ordered), count)
    start = size * (number - 1) + min(number - 1, remainder)
    return ordered[start : start + size + (number <= remainder)]
