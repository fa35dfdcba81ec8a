"""Sampling of memory: when it is measured, and which samples are written into the record.

A decision about memory is based on the last two samples, so both are in the record before it. Other
samples are written once a second, or after a marked change.
"""

from __future__ import annotations

import time
from typing import Mapping

from ciguard.model import SampleLine
from ciguard.model.record import largest_by_gpu
from ciguard.run.platforms.base import Headroom, MemoryInstruments, Tree

# Interval of samples near a threshold: at 0.9 GB/s the guard rail then overshoots by 4-10 MB.
CLOSE_EVERY_S = 0.02
# With more headroom than this, 10 GB/s could not reach a threshold within CALM_EVERY_S.
CLOSE_BYTES, CLOSE_RATIO = 2 << 30, 0.1
CALM_EVERY_S = 0.05
TREE_EVERY_S, MAX_TREE_EVERY_S = 0.04, 0.08
MAX_TREE_COST_RATIO = 200  # reading small trees takes at most 0.5 % of a core
WRITE_EVERY_S = 1.0
NOTABLE_RATIO, NOTABLE_BYTES = 0.25, 64 << 20
SAMPLES_PER_DECISION = 2  # so that `policy` can tell low memory from a hiccup


class MemorySampler:
    """Samples of the machine and of each tested process, with the peak of each process.

    Args:
        guarded: the guard rail acts on the headroom, which shortens `every_s` between samples.
    """

    def __init__(
        self, guardrail: Headroom, instruments: MemoryInstruments, *, guarded: bool
    ) -> None:
        self._guardrail = guardrail
        self._instruments = instruments
        self._gpu_bytes: Mapping[str, int] = {}  # largest by GPU since the last written sample
        self._peak_processes: Mapping[str, int] = {}  # at the largest peak since then
        self._pressure: Mapping[str, float] = {}
        self._close_bytes = max(CLOSE_BYTES, CLOSE_RATIO * (guardrail.memory_bytes() or 0))
        self._guarded = guarded
        self.every_s = CALM_EVERY_S
        self._tree_every_s = TREE_EVERY_S
        self._machine_s = self._tree_s = self._written_s = float("-inf")
        self._written: SampleLine = SampleLine(0.0)
        self._unwritten: list[SampleLine] = []
        self._sizes: dict[str, int] = {}  # by process number
        self._trees: frozenset[int] = frozenset()
        self.peak_bytes: dict[int, int] = {}
        self.tree_peak_bytes = 0  # of all processes together
        self.gpu_peak_bytes: Mapping[str, int] = {}

    def sample(
        self, now_s: float, trees: Mapping[int, Tree], *, awaited: bool = False
    ) -> SampleLine | None:
        """Return a sample if one is due, and a process runs or freed memory is awaited."""
        if not (trees or awaited) or now_s - self._machine_s < self.every_s:
            return None
        self._machine_s = now_s
        if now_s - self._tree_s >= self._tree_every_s or self._trees != trees.keys():
            self._tree_s = now_s
            self._sample_trees(now_s, trees)
        machine = self._guardrail.machine()
        sample = SampleLine(
            at_s=now_s,
            tree_bytes=sum(self._sizes.values()) if self._sizes else None,
            headroom_bytes=self._guardrail.headroom_bytes(machine),
            available_bytes=machine.available_bytes,
            swap_used_bytes=machine.swap_used_bytes,
            process_bytes=self._sizes,
            **self._pressure,
            gpu_bytes=self._gpu_bytes,
            peak_processes=self._peak_processes,
        )
        headroom = sample.headroom_bytes
        is_close = self._guarded and headroom is not None and headroom < self._close_bytes
        self.every_s = CLOSE_EVERY_S if is_close else CALM_EVERY_S
        # The rules ignore a sample without headroom, so it must not displace one with headroom.
        with_headroom = [old for old in self._unwritten if old.headroom_bytes is not None]
        count = SAMPLES_PER_DECISION if headroom is None else SAMPLES_PER_DECISION - 1
        self._unwritten = [*with_headroom[-count:], sample]
        return sample

    def _sample_trees(self, now_s: float, trees: Mapping[int, Tree]) -> None:
        start_s = time.thread_time()
        self._trees = frozenset(trees)
        self._sizes = {}  # a new dict: samples keep the old one
        for process, tree in trees.items():
            size = tree.read_bytes(now_s)
            if size is not None:
                self._sizes[str(process)] = size
                self.peak_bytes[process] = max(size, self.peak_bytes.get(process, 0))
        if sum(self._sizes.values()) > sum(self._peak_processes.values()):
            named = self._instruments.named_sizes(tuple(trees.values()))
            self._peak_processes = named or self._peak_processes
        cost_s = time.thread_time() - start_s
        every_s = max(TREE_EVERY_S, MAX_TREE_COST_RATIO * cost_s)
        self._tree_every_s = min(every_s, MAX_TREE_EVERY_S)
        self.tree_peak_bytes = max(self.tree_peak_bytes, sum(self._sizes.values()))
        self._pressure = self._instruments.pressure()
        used = self._instruments.gpu_bytes(now_s, tuple(trees.values()))
        if used:
            self._gpu_bytes = largest_by_gpu((self._gpu_bytes, used))
            self.gpu_peak_bytes = largest_by_gpu((self.gpu_peak_bytes, used))

    def due(self, now_s: float) -> tuple[SampleLine, ...]:
        """Return the samples to write if a second has passed or memory has changed markedly."""
        if not self._unwritten:
            return ()
        before, now = self._written.tree_bytes or 0, self._unwritten[-1].tree_bytes or 0
        change = abs(now - before)
        is_notable = change > NOTABLE_BYTES and change > NOTABLE_RATIO * before
        if now_s - self._written_s < WRITE_EVERY_S and not is_notable:
            return ()
        return self.flush()

    def flush(self) -> tuple[SampleLine, ...]:
        """Return those of the last two samples that are not written yet.

        All of them, so that a reader finds those that a decision was based on before it.
        """
        samples = tuple(self._unwritten)
        if samples:
            self._written, self._written_s = samples[-1], samples[-1].at_s
            self._gpu_bytes, self._peak_processes = {}, {}
        self._unwritten = []
        return samples
