"""Programs and variables of several adapters: how a plugin is addressed, a launcher started."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, Mapping, Tuple

from ciguard.errors import UsageError
from ciguard.run.frameworks.base import Invocation, variant_args

if TYPE_CHECKING:
    from typing import Callable, Sequence

    from ciguard.model import Suite
    from ciguard.run.frameworks.base import ProcessFiles

    # By suite, variant, variables of the plugin or launcher, and the folder of `run/plugins/`.
    Launch = Callable[[Suite, str, Mapping[str, str], str], Invocation]

# By a launcher whose tool is no program.
NOT_STARTED: Final = r"^ciguard: .* cannot be started: "


def batch_variables(batch: ProcessFiles) -> dict[str, str]:
    """What a plugin or launcher must know of the batch that its process runs."""
    return {
        "CIGUARD_UNITS_FILE": batch.units_file,
        "CIGUARD_RECORD_FILE": batch.record_file,
        "CIGUARD_STOP_FILE": batch.stop_file,
        "CIGUARD_SUITE": batch.suite,
        "CIGUARD_VARIANT": batch.variant,
        "CIGUARD_PROCESS": str(batch.process),
        "CIGUARD_ORIGIN_S": repr(batch.origin_s),
    }


def whole_command(suite: Suite, variant: str) -> tuple[str, ...]:
    """The suite's command with all arguments; a script takes none."""
    return (*suite.command, *(() if suite.is_script else variant_args(suite, variant)))


def listing_by(
    launch: Launch, suite: Suite, variant: str, answer_file: str, inside_folder: str
) -> Invocation:
    """Return the program that lists the units; the plugin or launcher writes `answer_file`."""
    return launch(suite, variant, {"CIGUARD_COLLECT_FILE": answer_file}, inside_folder)


def execution_by(launch: Launch, suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:
    """Return the program that runs a batch; the plugin or launcher selects and records."""
    return launch(suite, variant, batch_variables(batch), batch.inside_folder)


def launcher_invocation(  # noqa: PLR0917  # the first two are bound by `partial`
    launcher: str,
    words_of: Callable[[Suite, str], Tuple[str, ...]],
    suite: Suite,
    variant: str,
    env: Mapping[str, str],
    inside_folder: str,
) -> Invocation:
    """The leg's own Python with a file of `run/plugins/`, which starts the tool.

    Args:
        words_of: gives the words of the launcher for a suite and variant.
        env: for it.
    """
    program = (sys.executable, "-I", "-S", os.path.join(inside_folder, launcher))
    return Invocation((*program, *words_of(suite, variant)), env)


def refuse_flags(words: Sequence[str], refused: Mapping[str, str], framework: str) -> None:
    """Refuse flags that cannot be kept, with or without a value (`--x=1`).

    Args:
        refused: by flag, what to do instead; a name without dashes stands for `-x` and `--x`.

    Raises:
        UsageError: it has one.
    """
    for word in words:
        flag = word.partition("=")[0]
        advice = refused.get(flag) or refused.get(flag.lstrip("-"))
        if flag.startswith("-") and advice:
            raise UsageError(f"the flag {flag}", where=f"framework {framework}", fix=advice)
