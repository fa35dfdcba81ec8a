"""Coverage gates of a test job: options and settings that fail a run for too little coverage. Pure.

A shard covers only a part of the code, so that a gate fails each shard. A gate is an option in the
scripts of the job, or of a later job that downloads its artifacts, in files that they call, or in
the configuration of a tool; or a setting there, if such a job reports coverage. Texts are searched
for words, nothing is evaluated.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ciguard.workflow.movable_job import NotMovable, shorten
from ciguard.workflow.result_upload import find_downloads
from ciguard.workflow.test_commands import PYTEST, RULE, package_scripts, split_commands
from ciguard.workflow.yaml_values import steps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from ciguard.workflow.movable_job import MovableJob

FIX: Final = (
    "remove the gate, run init again, and check the total in a job after all shards (put the gate "
    "back if it is there): see docs/how-to/other-frameworks.md#measure-coverage"
)
_OPTION: Final = re.compile(
    r"^(?!.*\b(?:pylint|interrogate)\b)[^#\n]*?(--(?:cov-)?fail-under[^\d\n]*[1-9]\d*"
    r"|--check-coverage|--coverage\.thresholds\S*|--coverageThreshold)",
    re.M,
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


class _Setting(NamedTuple):
    """A setting in the files `name`, effective in a job where `reports` is found; "" for any."""

    name: str
    gate: str
    reports: str = ""


_SETTINGS: Final = (
    _Setting(
        r"pyproject\.toml|setup\.cfg|tox\.ini|\.coveragerc",
        r"^\s*fail_under\s*=[^\d\n]*[1-9]\d*",
        r"--cov\b(?!-)|\bcoverage['\", ]+(?:report|xml|html|json|lcov)\b",
    ),
    _Setting(
        r"package\.json|jest\.config\.\w+",
        r"coverageThreshold\b",
        r"--coverage\b|--collectCoverage\b",
    ),
    _Setting(r"vite(?:st)?\.config\.\w+", r"\bthresholds\s*:", r"--coverage\b"),
    _Setting(
        r"package\.json|\.nycrc(?:\.\w+)?|\.c8rc\.json",
        r"\"?check-?[cC]overage\"?\s*:\s*true",
        r"\b(?:nyc|c8)\b",
    ),
    _Setting(r"\.simplecov|\w+_helper\.rb", r"\bminimum_coverage\b[^\d\n]*[1-9]\d*"),
    _Setting(r"pom\.xml", r"<minimum>\s*0?\.?\d+", r"\bmvnw?\b.*\b(?:verify|install)\b"),
    _Setting(
        r"build\.gradle(?:\.kts)?", r"\bviolationRules\b", r"\b(?:check|build|\w+Verification)\b"
    ),
)


def reject_gate(job: MovableJob, tracked: Collection[str], read: Callable[[str], str]) -> None:
    """Refuse a job with a coverage gate, also in a later job that downloads its artifacts.

    Args:
        tracked: files of the repository.
        read: returns the text of one of them.

    Raises:
        NotMovable: with the file and line of each gate.
    """
    jobs = dict.fromkeys(
        (job.name, *(name for name, _, _ in find_downloads(job.workflow, job.name)))
    )
    called = list(_called_texts(job.workflow, jobs, frozenset(tracked), read))
    gates = [(name, match[1]) for name, text in called for match in _OPTION.finditer(text)]
    run = "\n".join(text for _, text in called)
    reporting = {row: bool(re.search(row.reports, run)) for row in _SETTINGS}
    for name in tracked:
        settings = [row for row in _SETTINGS if re.fullmatch(row.name, name.rpartition("/")[2])]
        text = read(name) if settings else ""
        for row in settings:
            reports = reporting[row] or _REPORTS_ALWAYS.search(text)
            match = re.search(row.gate, text, re.M) if reports else None
            gates += [(name, match[0].strip())] if match else []
    if gates:
        places = dict.fromkeys(_place(job, name, words, read) for name, words in gates)
        words = shorten(gates[0][1])
        what = f"each shard covers a part of the code, so that a coverage gate may fail: {words}"
        raise NotMovable(what, where=", ".join([*places][:3]), fix=FIX)


def _place(job: MovableJob, name: str, words: str, read: Callable[[str], str]) -> str:
    """Return `FILE:LINE` of a text in a file, or in the job of that name."""
    if name in job.workflow["jobs"]:
        line = job.source.line_number("jobs", name, "steps", text=words)
        return f"{job.where.partition(':')[0]}:{line}"
    return f"{name}:{read(name).partition(words)[0].count(chr(10)) + 1}"


def _called_texts(
    workflow: Any, names: Collection[str], tracked: Collection[str], read: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Yield (job or file, text) of the scripts of jobs, and of what they call."""
    jobs = {name: workflow["jobs"][name] for name in names}
    steps = [(name, step) for name, job in jobs.items() for _, step in steps_of(job)]
    queue = [(name, str(step["run"])) for name, step in steps if "run" in step]
    packages = [name for name in sorted(tracked) if name.rpartition("/")[2] == "package.json"]
    is_named = f"{jobs}{workflow.get('env')}"
    seen = set(queue)
    while queue:
        name, text = queue.pop()
        yield name, text
        words = {word.removeprefix("./") for line in split_commands(text) for word in line}
        scripts = sorted(word for word in words & {*tracked} if not word.endswith(".json"))
        found = [(file, read(file)) for file in scripts]
        if words & {"make", "gmake"} and "Makefile" in tracked:
            rules = RULE.findall(read("Makefile"))
            found += [("Makefile", recipe) for rule, recipe in rules if rule in words]
        if words & {"npm", "yarn", "pnpm", "bun"}:
            for file in packages:
                found += [
                    (file, text)
                    for key, text in package_scripts(read(file)).items()
                    if key in words
                ]
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
    return "".join(part for part, name in names if not name or (name[1] or name[2]) in job)
