""".NET: a unit is a test method with its class, `Shop.Tests.Prices.Adds`; rows are cases.

A launcher runs each test assembly of a project or solution by itself: xunit v2, NUnit and MSTest in
VSTest; xunit v3, TUnit and others in Microsoft.Testing.Platform. If there are several assemblies or
target frameworks, each unit begins with their names: `[Shop.Tests net8.0] Shop.Tests.Prices.Adds`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Mapping

from ciguard.errors import UsageError
from ciguard.model import Suite
from ciguard.run.frameworks import command
from ciguard.run.frameworks.base import PEAK_RESET_BY
from ciguard.run.frameworks.plugin_protocol import (
    NOT_STARTED,
    launcher_row,
    refuse_flags,
    whole_command,
)

# Flags that the launcher sets itself, or that exclude listed tests.
REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("-t", "--list-tests"), "ciguard lists the tests itself"),
    "--test-modules": "name a project, a solution or the assemblies",
}


def _words(suite: Suite, variant: str) -> tuple[str, ...]:
    """Return the whole command, after the suite's own key.

    Raises:
        UsageError: the command is not `dotnet test`, or has a refused flag.
    """
    words = whole_command(suite, variant)
    where = "framework dotnet"
    if "test" not in words[1:]:
        fix = 'set command = ["dotnet", "test", PROJECT]'
        raise UsageError(f"no `dotnet test`: {' '.join(words)!r:.200}", where=where, fix=fix)
    options = words[: words.index("--")] if "--" in words else words
    refuse_flags(options, REFUSED, "dotnet")
    own = () if suite.parallel is None else (f"--ciguard-parallel={str(suite.parallel).lower()}",)
    return (*own, *words)


DOTNET: Final = replace(
    launcher_row(
        "dotnet",
        "dotnet test",
        _words,
        *("ciguard_dotnet_setup.py", "ciguard_dotnet.cs", "ciguard_mtp.py"),
        more_env={PEAK_RESET_BY: "self"},  # the test host resets its own mark
    ),
    unit="test method",
    # The tests of each assembly in the order of its framework.
    default_command=("dotnet", "test"),
    file_patterns=tuple(
        f"*{name}.{extension}" for name in ("Test", "Tests") for extension in ("cs", "fs", "vb")
    ),
    hints=(
        (NOT_STARTED, "install the .NET SDK in the job (actions/setup-dotnet)"),
        (
            "died in discovery",
            "make the assembly smaller, or list no rows of theories: "
            "<xUnit><PreEnumerateTheories>false in the run settings",
        ),
    ),
    # As the loggers of JUnit write them: the class with its namespace.
    junit_name=lambda unit: unit.rpartition("] ")[2].rpartition(".")[::2],
    ancestors=command.ancestors,
    has_parallel=True,
    has_overlap=True,
)
