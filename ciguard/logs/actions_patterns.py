"""Log patterns of GitHub, its runner and its artifact actions; many only in annotations. Pure.

Sources: actions/runner (Runner.Worker), actions/toolkit (packages/artifact, of refused names
path-and-artifact-name-validation.ts), public issues about both.
"""

from __future__ import annotations

import re
from typing import Final

from ciguard.logs.pattern import LogPattern, failure, timeout

PATTERNS: Final = (
    failure(
        "actions.cancelled",
        r"(?:^|##\[error\]|Error: )The operation was canceled\.",
        ending="cancelled",
        inconclusive=True,  # the last line of every cancelled job; another line has the cause
    ),
    failure(
        "actions.shutdown_signal",
        r"The runner has received a shutdown signal",
        ending="runner_shutdown",
    ),
    failure(
        "actions.lost_communication",
        r"(?:The (?P<hosting>hosted|self-hosted) )?runner(?:: (?P<runner>.{1,200}?))? "
        r"lost communication with the server",
        ending="lost_runner",
    ),
    timeout(
        "actions.job_timeout",
        # Since 2025 "The job has exceeded ... of 15m0s", before "The job running on runner X ...".
        r"The job (?:running on runner (?P<runner>.{1,200}?) )?has exceeded the maximum execution "
        r"time of (?P<limit>(?:\d+h)?(?:\d+m)?\d+s)",
        fields={"limit": "hms"},
    ),
    timeout(
        "actions.job_timeout",
        r"The job running on runner (?P<runner>.{1,200}?) has exceeded the maximum execution time "
        r"of (?P<limit>\d+) (?P<limit_unit>minutes)",
        fields={"limit": "min"},
    ),
    timeout(
        "actions.step_timeout",
        r"The action '(?P<step>.{1,300}?)' has timed out after (?P<limit>\d+) minutes",
        fields={"limit": "min"},
        key=("step",),
    ),
    failure(
        "actions.superseded",
        r"Canceling since a higher priority waiting request"
        r"(?: for '?(?P<group>.{1,300}?)'? exists)?",
        ending="superseded",
    ),
    failure("actions.run_cancelled", r"The run was canceled by (?P<actor>\S+)", ending="cancelled"),
    failure(
        "actions.fail_fast",
        r"The strategy configuration was canceled because (?P<reason>.{1,300})",
        ending="cancelled",
    ),
    failure(
        "actions.disk_free",
        r"You are running out of disk space\. The runner will stop working when the machine runs "
        r"out of disk space\. Free space left: (?P<value>\d+) (?P<value_unit>MB)",
        fields={"value": "MB"},
    ),
    LogPattern(
        "actions.artifact",
        r"Artifact (?P<artifact>.{1,300}?) has been successfully uploaded! "
        r"Final size is (?P<bytes>\d+) bytes",
        fields={"bytes": "B"},
        key=("artifact",),
        better="lower",
    ),
    failure(
        "actions.artifact_name",
        r"(?:The a|A)rtifact name is not valid: (?P<artifact>.{1,300}?)\. Contains the following "
        r"character:\s+(?P<character_name>[A-Z][a-z]+(?: [a-z]+)?)(?: (?P<character>\S+))?",
        key=("artifact",),
    ),
)

# The start of a line in which pip, git, docker or npm reports why it failed.
TOOL_ERROR: Final = re.compile(r"(?i:error|fatal)\b[^:]{,40}:(?! *\d+$)|npm (?:ERR!|error) code \S")
REFUSED: Final = '":<>|*?\r\n\\/'
_REFUSED: Final = re.compile(f"[{re.escape(REFUSED)}]+")


def valid_artifact_name(name: str) -> str:
    """Replace characters that GitHub refuses by hyphens: "results/linux" -> "results-linux"."""
    parts = [part for part in _REFUSED.split(name) if part.strip()]
    return "-".join(parts) or "artifact"
