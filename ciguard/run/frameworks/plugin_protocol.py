"""How a plugin is addressed and a launcher started, and what they answer of the units that exist.

An answer is JSON lines: `{"unit": id, "file": path, "group": name}` a unit, `{"error": place,
"message": text}` for what could not be read, `{"filter": setting}` for what selects cases inside
units, and at last `{"done": true, "rootdir": path, "omitted": {reason: {file: tests}}}`, perhaps
with `untried`, a list of what ciguard was not tried with. Pure.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Final, Iterator, Mapping, Sequence

from ciguard.errors import UsageError
from ciguard.run.frameworks.base import Framework, Invocation, ListedUnit, Listing, variant_args
from ciguard.text import both_ends

if TYPE_CHECKING:
    from ciguard.model import Suite
    from ciguard.run.frameworks.base import ProcessFiles

# By a launcher whose tool is no program.
NOT_STARTED: Final = r"^ciguard: .* cannot be started: "


def read_answer(suite: Suite, answer: bytes, printed: bytes, code: int, program: str) -> Listing:
    """Parse the units, in the order written; without one closing line there is an error.

    Args:
        answer: listing that the plugin wrote.
        printed, code: output and exit code of the program, for the error.
        program: name of the framework.
    """
    units, errors, filters, ends = [], [], [], []
    for found in _objects(answer):
        if found.get("done"):
            ends.append(found)
        elif "error" in found:
            place = str(found["error"])
            errors.append(": ".join(filter(None, (place, str(found.get("message", ""))))))
        elif "filter" in found:
            filters.append(str(found["filter"]))
        elif "unit" in found:
            units.append(found)
    if len(ends) > 1:
        what = f"{len(ends)} {program} sessions answered one listing"
        fix = f"configure one suite for each call of {program}"
        errors.append(f"{what}: the suite's command must start {program} once; {fix}")
    if not ends:
        output_text = both_ends(printed.decode("utf-8", "replace")) or "it printed nothing"
        errors.append(f"collecting ended with exit code {code} and no inventory:\n{output_text}")
    rootdir = str(ends[0].get("rootdir", "")) if ends else ""
    omitted = ends[0].get("omitted", {}) if ends else {}
    return Listing(
        units=tuple(
            ListedUnit(
                unit=str(found["unit"]),
                file=_file(suite, rootdir, str(found.get("file") or "")),
                group=found.get("group"),
            )
            for found in units
        ),
        errors=tuple(errors),
        filters=tuple(sorted(set(filters))),
        untried=tuple(ends[0].get("untried", ())) if ends else (),
        omitted={
            reason: {_file(suite, rootdir, file): tests for file, tests in files.items()}
            for reason, files in omitted.items()
        },
    )


def _objects(answer: bytes) -> Iterator[dict[str, Any]]:
    for line in answer.splitlines():
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue  # cut: then `done`, which comes last, is missing as well
        if isinstance(found, dict):
            yield found


def _file(suite: Suite, rootdir: str, file: str) -> str:
    """Return a file's path in the repository: the rootdir may be the suite's folder."""
    cwd = suite.cwd.replace("\\", "/").strip("/")
    below = cwd not in ("", ".") and rootdir.replace("\\", "/").endswith("/" + cwd)
    return f"{cwd}/{file}" if below and file else file


def batch_variables(batch: ProcessFiles) -> dict[str, str]:
    """Return the environment variables that describe a batch to a plugin or launcher."""
    return {
        "CIGUARD_UNITS_FILE": batch.units_file,
        "CIGUARD_RECORD_FILE": batch.record_file,
        "CIGUARD_STOP_FILE": batch.stop_file,
        "CIGUARD_TRIES_FILE": batch.tries_file,
        "CIGUARD_SUITE": batch.suite,
        "CIGUARD_VARIANT": batch.variant,
        "CIGUARD_PROCESS": str(batch.process),
        "CIGUARD_ORIGIN_S": repr(batch.origin_s),
    }


def whole_command(suite: Suite, variant: str) -> tuple[str, ...]:
    """Return the suite's command with all arguments; a script takes none."""
    return (*suite.command, *(() if suite.is_script else variant_args(suite, variant)))


def plugin_row(
    name: str, program: str, launch_with: Callable[..., Invocation], *plugin_files: str
) -> Framework:
    """Return the row of a framework whose plugin or launcher lists, selects and records.

    Args:
        program: name of the framework in errors.
        launch_with: takes the name of the first of `plugin_files`, suite, variant, variables of the
            plugin or launcher, and the folder of `run/plugins/`.
    """
    launch = partial(launch_with, plugin_files[0])
    return Framework(
        name,
        unit="file",
        listing=lambda suite, variant, answer_file, inside_folder: launch(
            suite, variant, {"CIGUARD_COLLECT_FILE": answer_file}, inside_folder
        ),
        read_listing=partial(read_answer, program=program),
        execution=lambda suite, variant, batch: launch(
            suite, variant, batch_variables(batch), batch.inside_folder
        ),
        plugin_files=plugin_files,
    )


def launcher_row(
    name: str,
    program: str,
    words_of: Callable[[Suite, str], tuple[str, ...]],
    *more_files: str,
    more_env: Mapping[str, str] = {},  # never changed
) -> Framework:
    """Return the row of a framework without plugins: the leg's own Python runs a launcher.

    Args:
        words_of: returns the arguments of the launcher for a suite and variant.
        more_files: files of `run/plugins/` beside the launcher.
        more_env: variables of the launcher.
    """

    def launch(
        launcher: str, suite: Suite, variant: str, env: Mapping[str, str], inside_folder: str
    ) -> Invocation:
        python = (sys.executable, "-I", "-S", os.path.join(inside_folder, launcher))
        return Invocation((*python, *words_of(suite, variant)), {**more_env, **env})

    return plugin_row(name, program, launch, f"ciguard_{name}.py", *more_files)


def refuse_flags(words: Sequence[str], refused: Mapping[str, str], framework: str) -> None:
    """Refuse some flags, with or without a value (`--x=1`).

    Args:
        refused: flag -> advice; a name without dashes stands for `-x` and `--x`.

    Raises:
        UsageError: the words have a refused flag.
    """
    for word in words:
        flag = word.partition("=")[0]
        advice = refused.get(flag) or refused.get(flag.lstrip("-"))
        if flag.startswith("-") and advice:
            raise UsageError(f"the flag {flag}", where=f"framework {framework}", fix=advice)
