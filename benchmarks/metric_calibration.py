"""How often metrics alarm that did not change, and which changes are seen.

    python benchmarks/metric_calibration.py [--comparisons 2000] [--changed 400]

The simulation is `tests/compare/metric_simulation.py`, which says its distributions. A comparison
holds one new run of 1 to 100 metrics against 10 or 20 past runs. Target: where nothing changed, a
metric has a verdict in at most 5 % of the comparisons. Intervals are of 95 %.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from compare.metric_simulation import Noise, score_metrics
from intervals import share

KINDS: Final[tuple[tuple[Noise, float], ...]] = (
    *(("normal", 0.01), ("normal", 0.05), ("heavy", 0.01), ("heavy", 0.05)),
    *(("hiccups", 0.05), ("modes", 0.004), ("rare", 0.0)),
)
SERIES: Final = (1, 5, 20, 100)
GROWTHS: Final = (0.05, 0.10, 0.20, 0.50, 1.0)


def shared(count: int, trials: int) -> str:
    """ "0.031 (0.024..0.040)"."""
    low, high = share(count, trials)
    return f"{count / trials:.3f} ({low:.3f}..{high:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--comparisons", type=int, default=2000)
    parser.add_argument("--changed", type=int, default=400)
    options = parser.parse_args()
    print(f"no change, {options.comparisons} comparisons; share with an alarm (95 %)")
    for noise, spread in KINDS:
        for runs in (10, 20):
            for series in SERIES:
                count = options.comparisons // max(1, series // 20)
                found = score_metrics(
                    count, series=series, runs=runs, noise=noise, spread=spread, seed=series + runs
                )
                rate = shared(found.alarmed, count)
                print(f"  {noise} {spread:.1%}  N={runs}  {series} metrics  {rate}", flush=True)
    print(f"one metric grows, {options.changed} comparisons; share called worse (95 %)")
    for noise, spread in KINDS[:4]:
        for runs in (10, 20):
            for series in (1, 20, 100):
                shares = []
                for growth in GROWTHS:
                    found = score_metrics(
                        options.changed,
                        series=series,
                        runs=runs,
                        noise=noise,
                        spread=spread,
                        growth=growth,
                        seed=round(1e4 * growth) + series,
                    )
                    shares.append(f"+{growth:.0%} {shared(found.found, options.changed)}")
                print(
                    f"  {noise} {spread:.1%}  N={runs}  {series} metrics  {'  '.join(shares)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
