"""What a leg says to whoever reads its job's log. A reader that has gone stops nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, Mapping

from ciguard.run.wording import counted

if TYPE_CHECKING:
    from ciguard.model import UnitKey
    from ciguard.run.tail import Tail
    from ciguard.run.verdict import Verdict

MOST_NAMED: Final = 20  # bad and missing units named in the closing lines; the record has all
MESSAGE_CHARACTERS: Final = 300
MIB: Final = 1 << 20


class Console:
    """Lines of the leg and output of its tests, on one stream.

    Args:
        environ: GitHub Actions folds groups.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._folds = environ.get("GITHUB_ACTIONS") == "true"
        self._gone = False
        self._at_line_start = True

    def say(self, text: str) -> None:
        """One line of the leg's own."""
        self.pass_on(("" if self._at_line_start else "\n").encode() + _bytes(text) + b"\n")

    def pass_on(self, content: bytes) -> None:
        """Bytes that a test printed, unchanged."""
        if self._gone or not content:
            return
        try:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        except OSError:
            self._gone = True
        self._at_line_start = content.endswith(b"\n")

    def follow(self, log: Tail) -> None:
        """Print what was added to a log."""
        for piece in log.chunks():
            self.pass_on(piece)

    def begin(self, title: str) -> None:
        """A process's output follows."""
        self.say(f"::group::{title}" if self._folds else f"--- {title}")

    def end(self, line: str) -> None:
        """It is complete; `line` stays visible behind the fold."""
        if self._folds:
            self.say("::endgroup::")
        self.say(line)

    def conclude(
        self, name: str, found: Verdict, wall_s: float, causes: Mapping[UnitKey, str]
    ) -> None:
        """The leg's last lines: counts, then what is bad or missing by name.

        Args:
            causes: why units did not run, where that is known.
        """
        counts = ", ".join(f"{count} {outcome}" for outcome, count in found.counts.items())
        rest = f"; {counted(len(found.missing), 'unit')} did not run" if found.missing else ""
        if found.unexplained:
            rest += f"; {counted(found.unexplained, 'process')} failed without a failed result"
        self.say(f"{name}: {counts or 'no results'} in {wall_s:.1f} s{rest}")
        for result in found.bad[:MOST_NAMED]:
            how = f" ({result.ending})" if result.ending != "completed" else ""
            case = f" {result.case}" if result.case not in ("", result.unit) else ""
            self.say(f"  {result.outcome}{how} {_place(result)}{case}{_reason(result.message)}")
        for key in found.missing[:MOST_NAMED]:
            place = f"{key.unit}{_named(key.suite, key.variant)}"
            self.say(f"  did not run {place}{_reason(causes.get(key))}")
        unnamed = max(0, len(found.bad) - MOST_NAMED) + max(0, len(found.missing) - MOST_NAMED)
        if unnamed:
            self.say(f"  and {unnamed} more: see the record")


def _bytes(text: str) -> bytes:
    # A test's id may hold a lone surrogate, which no encoding carries.
    return text.encode("utf-8", "backslashreplace")


def _place(result: object) -> str:
    unit, suite, variant = (getattr(result, name) for name in ("unit", "suite", "variant"))
    return f"{unit}{_named(suite, variant)}"


def _named(suite: str, variant: str) -> str:
    named = "/".join(filter(None, (suite, variant)))
    return f" [{named}]" if named else ""


def _reason(message: str | None) -> str:
    first = (message or "").strip().partition("\n")[0][:MESSAGE_CHARACTERS]
    return f": {first}" if first else ""
