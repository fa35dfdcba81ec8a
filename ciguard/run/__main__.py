"""Entry point of the program that runs one shard: `python3 ciguard-run.pyz`, and `ciguard run`.

A leg is one execution of a shard by a job; a command after `--` is a shard of one test. In `run/`,
only this module reads the environment, writes step outputs and exits.
"""

from __future__ import annotations

import time

ORIGIN_S = time.monotonic()  # before anything else: the deadline counts from the step's start

import os  # noqa: E402
import sys  # noqa: E402
from typing import TYPE_CHECKING, Mapping, NoReturn, Sequence  # noqa: E402

from ciguard.errors import CiguardError, ExitCode, UsageError  # noqa: E402
from ciguard.run import leg  # noqa: E402
from ciguard.run.claim_client import TOKEN_VARIABLE  # noqa: E402
from ciguard.run.frameworks.globs import check_pattern  # noqa: E402
from ciguard.run.options import (  # noqa: E402
    adapted_plan,
    argument_parser,
    script_of,
    selection_of,
    split_at_separator,
)
from ciguard.run.policy.leg_verdict import LegVerdict  # noqa: E402
from ciguard.run.selection import ALL_UNITS, Selection  # noqa: E402

if TYPE_CHECKING:
    from argparse import Namespace


def _run(arguments: Sequence[str]) -> ExitCode:
    own_words, command = split_at_separator(arguments)
    options = argument_parser().parse_args(own_words)
    selection = selection_of(options)
    environ = dict(os.environ)
    os.environ.pop(TOKEN_VARIABLE, None)  # programs that the leg starts must not have the token
    if command:
        verdict = _run_command(options, selection, command, environ)
    elif options.plan and options.shard:
        plan = leg.read_plan(options.plan)
        script = script_of(options)
        verdict = leg.run_shard(
            adapted_plan(plan, options, script),
            options.shard,
            options.record,
            environ,
            selection,
            script="" if script is None else script.recorded,
            origin_s=ORIGIN_S,
        )
    else:
        fix = "pass --plan FILE --shard KEY, or a command after --"
        raise UsageError("nothing to run", fix=fix)
    return _write_step_output(verdict, environ) if options.github else verdict.exit_code


def _run_command(
    options: Namespace, selection: Selection, command: Sequence[str], environ: Mapping[str, str]
) -> LegVerdict:
    """Run a command as a leg with one test.

    Raises:
        UsageError: an option of plans was passed as well.
    """
    if options.plan or options.shard:
        raise UsageError("a plan and a command cannot be combined", fix="leave one of them out")
    if selection != ALL_UNITS:
        raise UsageError("a command has no tests to choose from", fix="leave the option out")
    plan_options = (options.script, options.shell, options.working_directory, options.args)
    if any(plan_options) or options.limit:
        fix = "leave --script, --shell, --working-directory, --args and --limit out"
        raise UsageError("an option for plans does not apply to a command", fix=fix)
    for pattern in options.results:
        check_pattern(pattern, where="--results")
    results, stdin = options.results, _stdin()
    return leg.run_command(
        command, options.record, environ, origin_s=ORIGIN_S, results=results, stdin=stdin
    )


def _stdin() -> int | None:
    """Return the descriptor of standard input; None if the leg was started without one."""
    try:
        return None if sys.stdin is None else sys.stdin.fileno()
    except (OSError, ValueError):  # standard input is closed, or an object without a descriptor
        return None


def _write_step_output(verdict: LegVerdict, environ: Mapping[str, str]) -> ExitCode:
    """Write the step's outputs: whether the leg continues in another step, and counts of its tests.

    At a checkpoint the exit code is 0, because GitHub never turns a failed step green again. If the
    outputs cannot be written, the exit code is that of the verdict.
    """
    stopped = sum(not result.is_failure for result in verdict.bad)  # by the checkpoint
    executed = sum(verdict.counts.values()) - stopped
    is_known = not verdict.in_files  # only the report reads result files
    is_judged = is_known and executed > 0
    outputs = {
        "state": "checkpoint" if verdict.checkpoint else "ended",
        "executed": executed if is_known else "",
        "failed": len(verdict.bad) - stopped if is_judged else "",
        "flaky": len(verdict.flaky) if is_judged else "",
    }
    try:
        with open(environ.get("GITHUB_OUTPUT", ""), "a", encoding="utf-8") as stream:
            stream.writelines(f"{name}={value}\n" for name, value in outputs.items())
    except OSError as error:
        what = f"--github: GITHUB_OUTPUT cannot be written: {error.strerror or error}"
        sys.stderr.write(f"ciguard run: {what}\n")
        return verdict.exit_code
    return ExitCode.OK if verdict.checkpoint else verdict.exit_code


def _reopen_standard_streams() -> None:
    """Open each standard stream that was closed when the leg was started.

    Otherwise the record would get the descriptor of the stream, and all output would go into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: `number`
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def run(arguments: Sequence[str]) -> int:
    """Run the leg that the arguments describe, and return its exit code."""
    _reopen_standard_streams()
    try:
        return int(_run(arguments))
    except CiguardError as error:
        sys.stderr.write(f"ciguard run: {error}\n".encode("utf-8", "replace").decode("utf-8"))
        return int(error.exit_code)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)  # the signal came before or after supervision
    except SystemExit as exit_:
        return int(exit_.code or 0)  # argparse has printed its error, or the help


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the leg and exit the process; the zip file calls this function."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    main()
