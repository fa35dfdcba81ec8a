"""pytest 7 and newer: a unit is a node id, verbatim, and has no other cases.

The command line gets no paths: node ids are relative to pytest's rootdir, which only pytest knows,
and file arguments would choose another rootdir, ini-file and set of conftests than the listing had.
Instead, the plugin in `run/plugins/` restricts the collection.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import Final, Mapping

from ciguard.model import Suite
from ciguard.run.frameworks.base import (
    PEAK_RESET_BY,
    Framework,
    Invocation,
    Listing,
    ProcessFiles,
    enclosing,
    variant_args,
)
from ciguard.run.frameworks.plugin_protocol import batch_variables, read_answer

PLUGIN: Final = ("-p", "ciguard_pytest", "-p", "ciguard_coverage")
LISTING: Final = ("-p", "ciguard_listing")
SEPARATOR_IN_PATH: Final = "{}: its path contains `::`, which ends the file in a test id: rename it"
FAILED: Final = 1
# tox passes on only the variables that it is configured to.
TOX_PASSES: Final = "testenv.pass_env+=PYTHONPATH,PYTEST_ADDOPTS,CIGUARD_*"
TIMEOUT: Final = re.compile(r"\++ Timeout \++")  # the line after the stacks of pytest-timeout


def listing(suite: Suite, variant: str, answer_file: str, inside_folder: str) -> Invocation:
    """Return the program that only collects; the plugin writes `answer_file`."""
    words = (*variant_args(suite, variant), "--collect-only", "-q", *LISTING)
    return _invocation(suite, words, {"CIGUARD_COLLECT_FILE": answer_file}, inside_folder)


def _invocation(
    suite: Suite, words: tuple[str, ...], env: Mapping[str, str], inside_folder: str
) -> Invocation:
    """Return the suite's program with more arguments; a script gets them by variables."""
    paths = {"PYTHONPATH": inside_folder}
    if not suite.is_script:
        return Invocation((*suite.command, *words), env, paths)
    options = {"PYTEST_ADDOPTS": (" ", " ".join(map(shlex.quote, words)))}
    return Invocation(suite.command, env, paths, {**options, "TOX_OVERRIDE": (";", TOX_PASSES)})


def read_listing(suite: Suite, answer: bytes, printed: bytes, code: int) -> Listing:
    """Parse the node ids, in pytest's order."""
    listing = read_answer(suite, answer, printed, code, "pytest")
    # The file of a node id ends at its first "::", so no leg would find the test.
    paths = sorted({unit.file for unit in listing.units if "::" in unit.file})
    return replace(listing, errors=(*listing.errors, *map(SEPARATOR_IN_PATH.format, paths)))


def execution(suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:
    """Return the program that runs a batch; the plugin selects, orders, measures and records."""
    words = (*variant_args(suite, variant), *PLUGIN, "--continue-on-collection-errors")
    env = {
        **batch_variables(batch),
        "CIGUARD_STACKS_FILE": batch.stacks_file,
        PEAK_RESET_BY: "self",
    }
    if batch.listing_file:
        env["CIGUARD_LISTING_FILE"] = batch.listing_file
    return _invocation(suite, words, env, batch.inside_folder)


def hit_own_timeout(exit_code: int, output: str) -> bool:
    """Return whether pytest-timeout ended the process (method "thread", by os._exit)."""
    last = output.rstrip().rpartition("\n")[2]
    return exit_code == FAILED and TIMEOUT.fullmatch(last) is not None


def junit_name(unit: str) -> tuple[str, str]:
    """Return the names as `junit_family = legacy` writes them: dots for path and classes."""
    address, bracket, parameters = unit.partition("[")
    file, *names = address.split("::")
    parts = [file.replace("/", "."), *names]
    parts[0] = parts[0][: -len(".py")] if parts[0].endswith(".py") else parts[0]
    return ".".join(parts[:-1]), f"{parts[-1]}{bracket}{parameters}"


def ancestors(unit: str) -> tuple[str, ...]:
    """Return the function without parameters, the classes, the file, its folders, and ""."""
    file, _, rest = unit.partition("::")
    names = rest.partition("[")[0].split("::") if rest else []
    inner = [f"{file}::{'::'.join(names[:count])}" for count in range(len(names), 0, -1)]
    return (*inner, *enclosing(file))


PYTEST: Final = Framework(
    "pytest",
    unit="test",
    listing=listing,
    read_listing=read_listing,
    execution=execution,
    default_command=("python", "-m", "pytest"),
    file_patterns=("test_*.py", "*_test.py"),
    is_default=True,
    ignore_folder="--ignore={}",
    closes_units=False,  # the one result of a unit closes it
    lists_in_tested_process=True,
    has_workers=True,
    passed_codes=(0, 5),  # 5: no test was collected
    # 2 is an interruption, also by `pytest.exit` in a test: the other tests run in a fresh process.
    # --maxfail ends with 1, as the user configured.
    failed_codes=(FAILED,),
    hints=(
        (
            # PYTHONPATH is the only way to load the plugin that changes no file of the project.
            'Error importing plugin "ciguard_',
            "ciguard's plugin was not found: PYTHONPATH did not reach pytest. Remove -I or -E from "
            "the suite's command, or let its wrapper (env -i, sudo, tox, docker) pass PYTHONPATH "
            "on",
        ),
    ),
    # All files of a process are imported before its first test.
    file_of=lambda unit: unit.partition("::")[0],
    hit_own_timeout=hit_own_timeout,
    junit_name=junit_name,
    ancestors=ancestors,
)
