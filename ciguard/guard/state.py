"""The state of a verdict, and the level of each kind of finding, which decides it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from ciguard.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

State = Literal["passed", "failed", "incomplete"]
Level = Literal["incomplete", "failed", "warning"]

EXIT_CODE: Final[Mapping[State, ExitCode]] = {
    "passed": ExitCode.OK,
    "failed": ExitCode.TESTS_FAILED,
    "incomplete": ExitCode.INCOMPLETE,
}
# Each kind that is in no row makes a run incomplete. The policy or the facts of a finding may state
# another level (`Finding.stated_level`).
_KINDS: Final[Mapping[Level, tuple[str, ...]]] = {
    "failed": (
        "failure_missing", "job_failed", "quarantine", "unexplained_exit",
    ),
    "warning": (
        "base_plan_unread", "base_tests_gone", "cases_gone", "cases_gone_of_changed_file",
        "cases_not_selected", "combination_gone", "duplicate_record", "duplicate_unit",
        "empty_record_file", "excluded",
        "fewer_units_accepted", "filter_planned", "job_excused", "job_open", "jobs_unknown",
        "needs_empty", "no_base_run", "older_record_without_shard_line", "orphans_accepted",
        "other_attempt", "other_commit", "other_plan", "other_repository", "other_run",
        "policy_changed", "policy_unread", "quarantine_ends", "quarantine_passed",
        "quarantine_stale", "ran_beside", "ran_in_several_shards", "setting_ignored",
        "suite_changed", "suite_removed", "unknown_shard", "unplanned", "unreadable_metric",
    ),
}  # fmt: skip
LEVELS: Final = {kind: level for level, kinds in _KINDS.items() for kind in kinds}


def level_of(kind: str) -> Level:
    """Return the level of a kind of finding."""
    return LEVELS.get(kind, "incomplete")


def decide_state(levels: AbstractSet[Level], *, is_missing: bool, is_failed: bool) -> State:
    """Decide the state: incomplete outranks failed outranks passed.

    Args:
        levels: those of all findings.
        is_missing: a planned unit has no result.
        is_failed: a test failed, and neither quarantine nor base excuses the failure.
    """
    if is_missing or "incomplete" in levels:
        return "incomplete"
    return "failed" if is_failed or "failed" in levels else "passed"
