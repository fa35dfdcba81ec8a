"""Coverage gates of a test job: options and settings that fail a run for too little coverage. Pure.

A shard covers only a part of the code, so that a gate fails each shard: it moves into [coverage] of
the configuration. A gate is an option in the scripts of the job, in files that they call, or in the
configuration of a tool; or a setting there, if the job reports coverage. Texts are searched for
words, nothing is evaluated. A gate of a later job stays: it gets the data of all shards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple

from ciguard.workflow.movable_job import MovableJob, NotMovable, shorten
from ciguard.workflow.positions import Edit
from ciguard.workflow.test_commands import PYTEST, RULE, package_scripts, split_commands
from ciguard.workflow.yaml_values import steps_of

FIX: Final = (
    "remove the gate, and run init again; [coverage] in ciguard.toml can have one minimum of all "
    "lines: see docs/reference/configuration.md#coverage"
)
_ADDOPTS: Final = re.compile(r"^\s*addopts\s*=(?:[^\n]*\[[^\]]*|[^\n]*(?:\n[ \t]+\S[^\n]*)*)", re.M)
# Parts of a file that a tool runs by their names: environments of tox, sessions of nox.
_SECTION: Final = re.compile(r"^(?=\[|@\w)", re.M)
_SECTION_NAME: Final = re.compile(r"^\[testenv:([\w.-]+)\]|^def (\w+)\(", re.M)
_SELECTION: Final = re.compile(r"(?i)tox_?env|nox_?session|\s-[se]\s|--sessions?\b")
_REPORTS_ALWAYS: Final = re.compile(
    r"collectCoverage\"?\s*:\s*true|\bcoverage\s*:\s*\{[^}]*\benabled\s*:\s*true"
)
_TOOL_FILES: Final = {"tox": ("tox.ini", "setup.cfg", "pyproject.toml"), "nox": ("noxfile.py",)}
_NO_SCRIPTS: Final = (".json", ".toml", ".ini", ".cfg", "noxfile.py")
_COMMAND: Final = r"^(?!.*\b(?:pylint|interrogate)\b)"
_OF_A_PART: Final = r"(?=.*(?:\bdiff-(?:cover|quality)\b|--(?:include|omit|contexts)\b))"
_OPTION: Final = r"--(?:cov-)?fail-under[= ][\d.]+"
_IS: Final = r"[\"']?\s*:\s*"  # after a key
# Thresholds of all lines or statements, and no others.
_THRESHOLDS: Final = rf"\{{(?:\s*[\"']?(?:lines|statements){_IS}[\d.]+\s*,?)+\s*\}}"
_GLOBAL: Final = rf"coverageThreshold{_IS}\{{\s*[\"']?global{_IS}{_THRESHOLDS}\s*,?\s*\}}"


def _item(text: str) -> str:
    """Return a pattern of an item of a list or an object, with one of the commas around it."""
    end = r"(?=\s*[\])}])"
    return rf"\s*,\s*{text}{end}|\s*{text}\s*,|(?<=[\[{{(])\s*{text}{end}"


class _Gate(NamedTuple):
    """A kind of gate: `words` in files of a name, or in the scripts of the job for the name "".

    Attributes:
        reports: without it in the scripts, a setting has no effect.
        cut: what a move removes; by default nothing: such a gate cannot move.
    """

    files: str
    words: str
    reports: str = ""
    format: str = ""
    cut: str = "(?!)"


_GATES: Final = (
    _Gate(
        *("", rf"{_COMMAND}[^#\n]*?(--(?:cov-)?fail-under[^\d\n]*[1-9][\d.]*)", "", "coverage.py"),
        _item(rf"[\"']{_OPTION}[\"']")  # or words, with a line break if they begin a line
        + rf"|(?:[ \t]*[\\`]?\r?\n)?[ \t]*(?<![\"']){_OPTION}(?![\w%$])|(?<=[\"']){_OPTION}[ \t]+",
    ),
    _Gate(
        "",
        rf"{_COMMAND}(?:{_OF_A_PART}[^#\n]*?(--fail-under)"
        r"|[^#\n]*?(--check-coverage|--coverage\.thresholds\S*|--coverageThreshold"
        r"|--(?:cov-)?fail-under[= ][\"']?\$\S*))",
    ),
    _Gate(
        r"pyproject\.toml|setup\.cfg|tox\.ini|\.coveragerc",
        r"^\[(?:tool\.coverage\.|coverage:)?report\](?:(?!\[).*\n)*?"
        r"[ \t]*(fail_under[ \t]*=[^\d\n]*[1-9][\d.]*)",
        *(r"--cov\b(?!-)|\bcoverage['\", ]+(?:report|xml|html|json|lcov)\b", "coverage.py"),
        r"^[ \t]*fail_under[ \t]*=[ \t]*[\"']?[\d.]+[\"']?[ \t]*(?:[#;].*)?(?:\r?\n|\Z)",
    ),
    _Gate(
        r"package\.json|(?:jest|vite|vitest)\.config\.\w+",
        r"(?:coverageThreshold\b|\bthresholds\s*:)[^}]*",
        *(r"--coverage\b|--collectCoverage\b", "lcov"),
        _item(rf"[\"']?(?:{_GLOBAL}|thresholds{_IS}{_THRESHOLDS})"),
    ),
    _Gate(r"package\.json|\.(nyc|c8)rc(\.\w+)?", rf"check-?[cC]overage{_IS}true", r"\b(nyc|c8)\b"),
    _Gate(r"\.simplecov|\w+_helper\.rb", r"\bminimum_coverage\b[^\d\n]*[1-9]\d*"),
    _Gate(r"pom\.xml", r"<minimum>\s*0?\.?\d+", r"\bmvnw?\b.*\b(?:verify|install)\b"),
    _Gate(r"build\.gradle(\.kts)?", r"\bviolationRules\b", r"\b(check|build|\w+Verification)\b"),
)


class MovedGate(NamedTuple):
    """The gates of a job, for [coverage]."""

    format: str
    minimum: str
    places: list[str]  # FILE:LINE of each
    edits: list[Edit]  # of the workflow
    cuts: list[tuple[str, re.Pattern[str]]]  # (file, pattern of what leaves it)


def find_gate(
    job: MovableJob, tracked: Collection[str], read: Callable[[str], str]
) -> MovedGate | None:
    """Find the coverage gates of a job; return None if it has none.

    Args:
        tracked: files of the repository.
        read: returns the text of one of them.

    Raises:
        NotMovable: with the file and line of each gate that cannot move.
    """
    called = list(_called_texts(job, frozenset(tracked), read))
    run = "\n".join(text for _, text in called)
    found: dict[tuple[str, _Gate], str] = {}
    for gate in _GATES:
        names = [name for name in tracked if re.fullmatch(gate.files, name.rpartition("/")[2])]
        for name, text in ((name, read(name)) for name in names) if gate.files else called:
            match = re.search(gate.words, text, re.M)
            if match and (re.search(gate.reports, run) or _REPORTS_ALWAYS.search(text)):
                found.setdefault((name, gate), match[match.lastindex or 0].strip())
    formats = {gate.format for _, gate in found}
    numbers = {number for words in found.values() for number in re.findall(r"\d+(?:\.\d+)?", words)}
    moved = MovedGate(min(formats, default=""), min(numbers, default=""), [], [], [])
    refused: dict[str, str] = {}
    entry = job.source.find("jobs", job.name)
    assert entry is not None
    for (name, gate), words in found.items():
        text = read(name) if name else job.source.text
        start, end = (0, len(text)) if name else (entry.start, job.source.content_end(entry))
        line = text.count("\n", 0, max(text.find(words, start), start)) + 1
        moved.places.append(f"{name or job.path}:{line}")
        cut = re.compile(gate.cut, re.M)
        matches = list(cut.finditer(text, start, end))
        if len(matches) != 1 or words not in matches[0][0] or "\ufffd" in text:
            refused[moved.places[-1]] = words
        elif name:
            moved.cuts.append((name, cut))
        else:
            moved.edits.append(Edit(*matches[0].span(), ""))
    # Thresholds of several packages are none of all their lines together.
    if len(formats) > 1 or len(numbers) > 1 or len({gate for _, gate in found}) < len(found):
        refused = refused or dict(zip(moved.places, found.values(), strict=True))
    if refused:
        words = shorten(next(iter(refused.values())))
        what = f"each shard covers a part of the code, so that a coverage gate may fail: {words}"
        raise NotMovable(what, where=", ".join([*refused][:3]), fix=FIX)
    return moved if found else None


def _called_texts(
    job: MovableJob, tracked: Collection[str], read: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Yield (file, text) of the scripts of a job, whose file is "", and of what they call."""
    queue = [("", str(step["run"])) for _, step in steps_of(job.value) if "run" in step]
    packages = [name for name in sorted(tracked) if name.rpartition("/")[2] == "package.json"]
    scripts = [(file, *item) for file in packages for item in package_scripts(read(file)).items()]
    steps = [{**step, "name": ""} for _, step in steps_of(job.value)]
    is_named = f"{ {**job.value, 'name': '', 'steps': steps} }{job.workflow.get('env')}"
    seen = set(queue)
    while queue:
        name, text = queue.pop()
        yield name, text
        words = {word.removeprefix("./") for line in split_commands(text) for word in line}
        called = sorted(word for word in words & {*tracked} if not word.endswith(_NO_SCRIPTS))
        found = [(file, read(file)) for file in called]
        if words & {"make", "gmake"} and "Makefile" in tracked:
            rules = RULE.findall(read("Makefile"))
            found += [("Makefile", recipe) for rule, recipe in rules if rule in words]
        if words & {"npm", "yarn", "pnpm", "bun"}:
            found += [(file, script) for file, key, script in scripts if key in words]
        for tool, files in _TOOL_FILES.items():
            if any(word.rpartition("/")[2] == tool for word in words):
                parts = [(file, read(file)) for file in files if file in tracked]
                found += [(file, _selected(text, is_named)) for file, text in parts]
        if PYTEST in text:
            files = ("pyproject.toml", f"{PYTEST}.ini", "setup.cfg", "tox.ini")
            options = [(file, _ADDOPTS.search(read(file))) for file in files if file in tracked]
            found += [(file, match[0]) for file, match in options if match]
        queue += [item for item in found if item not in seen]
        seen.update(found)


def _selected(text: str, job: str) -> str:
    """Return the sections that the job names; all sections if the job selects none."""
    if not _SELECTION.search(job):
        return text
    names = [(part, _SECTION_NAME.search(part)) for part in _SECTION.split(text)]
    called = {*re.findall(r"[\w.-]+", job)}
    return "".join(part for part, name in names if not name or (name[1] or name[2]) in called)
