"""GitHub's hosted runners: label -> cores, memory, price. Facts of 2026-11.

Memory and cores of the standard runners are those of a private repository (the smaller ones): a
budget too small costs time, one too large costs the shard. Prices in USD a minute, each job rounded
up to whole minutes. Source: docs.github.com, "GitHub-hosted runners" and "Actions runner pricing".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class HostedRunner:
    """A machine that GitHub rents out."""

    cpus: int
    memory_bytes: int
    usd_per_minute: float


HOSTED: Final[dict[str, HostedRunner]] = {
    "ubuntu-latest": HostedRunner(2, 8 * GIB, 0.006),
    "ubuntu-24.04": HostedRunner(2, 8 * GIB, 0.006),
    "ubuntu-22.04": HostedRunner(2, 8 * GIB, 0.006),
    "windows-latest": HostedRunner(2, 8 * GIB, 0.010),
    "macos-latest": HostedRunner(3, 7 * GIB, 0.062),
    "ubuntu-slim": HostedRunner(1, 5 * GIB, 0.002),
    "ubuntu-latest-4-cores": HostedRunner(4, 16 * GIB, 0.012),
    "ubuntu-latest-8-cores": HostedRunner(8, 32 * GIB, 0.022),
    "ubuntu-latest-16-cores": HostedRunner(16, 64 * GIB, 0.042),
    "ubuntu-latest-32-cores": HostedRunner(32, 128 * GIB, 0.082),
    "ubuntu-latest-64-cores": HostedRunner(64, 256 * GIB, 0.162),
    "ubuntu-latest-96-cores": HostedRunner(96, 384 * GIB, 0.252),
    "windows-latest-4-cores": HostedRunner(4, 16 * GIB, 0.022),
    "windows-latest-8-cores": HostedRunner(8, 32 * GIB, 0.042),
    "windows-latest-16-cores": HostedRunner(16, 64 * GIB, 0.082),
    "windows-latest-32-cores": HostedRunner(32, 128 * GIB, 0.162),
}
