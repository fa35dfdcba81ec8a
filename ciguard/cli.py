"""Entry point of the command line: run the command of a verb, print its errors and exit.

ciguard imports only the module of the chosen verb. `plan` needs no HTTP client and `--help` needs
no numpy, which take 0.1-0.2 s each.
"""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import Final

import click

from ciguard import __version__, console
from ciguard.config.invocation import Invocation
from ciguard.errors import CiguardError, ExitCode, UsageError

# Purpose of each verb, in the order of use. The module of a verb is ciguard.<verb>.command.
VERBS: Final = {
    "init": "write ciguard.toml and the workflow",
    "doctor": "check configuration, tools and permissions",
    "audit": "find problems of an existing CI",
    "plan": "divide tests into balanced shards",
    "run": "run and supervise a shard or a command",
    "guard": "prove that every planned test ran",
    "compare": "compare two runs",
    "coverage": "combine coverage of all shards",
    "report": "publish a comment or a page",
    "explain": "explain the failures of a run",
    "export": "write results as JUnit XML",
    "history": "add, show or copy past runs",
    "site": "write static pages of the history",
    "serve": "run the service",
    "culprit": "find the commit since which tests are worse",
    "experiment": "compare commands or commits",
}


class _Verbs(click.Group):
    """A click group that imports the command of a verb when the verb is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"ciguard.{cmd_name}.command").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ciguard")
def cli() -> None:
    """Plan, supervise, prove and compare large test suites on GitHub Actions."""


def _check_distribution() -> None:
    """Refuse to run in an environment that contains another project's distribution named `ciguard`.

    Raises:
        UsageError: that distribution is installed, so that one folder has the files of both.
    """
    try:
        version = importlib.metadata.version("ciguard")
    except importlib.metadata.PackageNotFoundError:
        return
    what = f"the distribution ciguard {version} of another project is installed in {sys.prefix}"
    fix = "install ciguard-shards in a separate environment, or uninstall both and install it again"
    raise UsageError(what, fix=fix)


def _path_of_tests(path: str) -> str:
    """Return PATH with the project's `.venv` in the place of ciguard's own environment.

    uvx puts an environment that contains only ciguard first on PATH, and tests cannot run there. An
    environment that also contains the default framework stays on PATH.
    """
    own, folders = Path(sys.executable).parent, path.split(os.pathsep)
    if sys.prefix == sys.base_prefix or str(own) not in folders:
        return path
    # Imported here: only an environment on PATH asks for the name.
    from ciguard.run.frameworks.registry import DEFAULT  # noqa: PLC0415

    project = Path(".venv", own.name).resolve()
    replaced = [str(project)] if shutil.which("python", path=str(project)) else []
    others = [folder for name in folders for folder in (replaced if name == str(own) else [name])]
    changed = os.pathsep.join(others)
    is_other = not importlib.util.find_spec(DEFAULT) and shutil.which("python", path=changed)
    return changed if is_other else path


def run(arguments: list[str]) -> int:
    """Run a command line in this process; print errors and return the exit code."""
    try:
        _check_distribution()
        code = cli.main(
            args=arguments,
            prog_name="ciguard",
            standalone_mode=False,
            obj=Invocation(dict(os.environ)),
        )
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        error.show()
        return int(ExitCode.USAGE)
    except click.Abort:
        console.err("ciguard: interrupted")
        return int(ExitCode.INTERRUPTED)
    except CiguardError as error:
        verb = next((word for word in arguments if not word.startswith("-")), "")
        console.err(f"ciguard{f' {verb}' if verb in VERBS else ''}: {error}")
        return int(error.exit_code)
    except BrokenPipeError:
        # The reader of the output has ended (`ciguard plan | head`): this is no error.
        return int(ExitCode.OK)
    return int(code or 0)


def main() -> None:
    """Run the `ciguard` script; no other function exits the process."""
    # A command keeps all values that it reads. The search for cycles among millions of values takes
    # up to a third of its time (12.1 -> 8.0 s for two records of 100,000 results) and finds none.
    gc.disable()
    # Other commands must not start programs of the checkout, such as a `git` in its `.venv`.
    if sys.argv[1:2] in (["plan"], ["run"], ["coverage"]):
        os.environ["PATH"] = _path_of_tests(os.environ.get("PATH", ""))
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:
        # The error (closed pipe, full disk) is reported already; Python flushes again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
