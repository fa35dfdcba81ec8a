"""The program of a leg: `python3 ciguard-run.pyz`, and `ciguard run`.

Reads the command line and the environment, prints, exits: the one place of `run/` that does.
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
    parse,
    script_of,
    selection_of,
    split_at_separator,
)
from ciguard.run.selection import ALL_UNITS  # noqa: E402

if TYPE_CHECKING:
    from ciguard.run.policy.leg_verdict import LegVerdict


def _run(arguments: Sequence[str]) -> ExitCode:
    ours, command = split_at_separator(arguments)
    options = parse(ours)
    scope = selection_of(options)
    environ = dict(os.environ)
    os.environ.pop(TOKEN_VARIABLE, None)  # for whatever the leg itself starts, such as git
    if command:
        if options.plan or options.shard:
            raise UsageError("a plan and a command: one of them", fix="leave one of them out")
        if scope != ALL_UNITS:
            raise UsageError("a command has no units to choose from", fix="leave the option out")
        ours_only = (options.script, options.shell, options.working_directory, options.args)
        if any(ours_only) or options.limit:
            fix = "leave --script, --shell, --working-directory, --args and --limit out"
            raise UsageError("an option for a plan's tests, and a command", fix=fix)
        for pattern in options.results:
            check_pattern(pattern, where="--results")
        results, stdin = options.results, _stdin()
        done = leg.run_command(
            command, options.record, environ, origin_s=ORIGIN_S, results=results, stdin=stdin
        )
        return _write_step_output(done, environ) if options.github else done.exit_code
    if not options.plan or not options.shard:
        fix = "pass --plan FILE --shard KEY, or a command after --"
        raise UsageError("nothing to run", fix=fix)
    plan = leg.read_plan(options.plan)
    script = script_of(options)
    done = leg.run_shard(
        adapted_plan(plan, options, script),
        options.shard,
        options.record,
        environ,
        scope,
        script="" if script is None else script.recorded,
        origin_s=ORIGIN_S,
    )
    return _write_step_output(done, environ) if options.github else done.exit_code


def _stdin() -> int | None:
    """Our standard input; None where we were started without."""
    try:
        return None if sys.stdin is None else sys.stdin.fileno()
    except (OSError, ValueError):  # another one in its place; closed
        return None


def _write_step_output(verdict: LegVerdict, environ: Mapping[str, str]) -> ExitCode:
    """Write the step's outputs: whether the leg goes on, and how many tests came to what.

    A step that ends with anything but 0 is red for ever, so one that did all it was asked to ends
    with 0, but only where the workflow has learned from the output that there is more to do.
    """
    stopped = sum(not result.is_failure for result in verdict.bad)  # with their step
    executed = sum(verdict.counts.values()) - stopped
    is_known = not verdict.in_files  # which the report reads
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
    """Open each standard stream that was closed when we were started.

    Else the record would get its number, and whatever is printed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free, so this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def run(arguments: Sequence[str]) -> int:
    """Do what the arguments say; the exit code."""
    _reopen_standard_streams()
    try:
        return int(_run(arguments))
    except CiguardError as error:
        sys.stderr.write(f"ciguard run: {error}\n".encode("utf-8", "replace").decode("utf-8"))
        return int(error.exit_code)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)  # before or after the supervised part
    except SystemExit as exit_:
        return int(exit_.code or 0)  # argparse has said what is wrong, or helped


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the zip file; exits."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    main()
