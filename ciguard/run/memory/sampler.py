"""When memory is looked at, and which looks are written down.

A decision about memory is made on the last two looks, so both are in the record before it; all
others are written once a second, or when something changed markedly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, FrozenSet, List, Mapping

from ciguard.model import SampleLine

if TYPE_CHECKING:
    from ciguard.run.platforms.base import Headroom, MemoryInstruments, Tree

# Between looks at the machine: at 0.9 GB/s the guard rail then overshoots by 4-10 MB.
CLOSE_EVERY_S = 0.02
# Where there is more than this left, 10 GB/s could not bring it down to a floor in between.
CLOSE_BYTES, CLOSE_RATIO = 2 << 30, 0.1
CALM_EVERY_S = 0.05
TREE_EVERY_S = 0.08
WRITE_EVERY_S = 1.0
NOTABLE_RATIO, NOTABLE_BYTES = 0.25, 64 << 20
SAMPLES_PER_DECISION = 2  # what `policy` needs to tell low memory from a hiccup


class MemorySampler:
    """Looks at the machine and at each tested process; remembers the highest of each.

    Args:
        guarded: whether anybody acts on what is left; `every_s` is the time between two looks.
    """

    def __init__(
        self, guardrail: Headroom, instruments: MemoryInstruments, *, guarded: bool
    ) -> None:
        self._guardrail = guardrail
        self._instruments = instruments
        self._rare: Dict[str, Any] = {}  # of what is asked rarely, said once
        self._pressure: Mapping[str, Any] = {}
        self._close_bytes = max(CLOSE_BYTES, CLOSE_RATIO * (guardrail.memory_bytes() or 0))
        self._guarded = guarded
        self.every_s = CALM_EVERY_S
        self._machine_s = self._tree_s = self._written_s = float("-inf")
        self._written: SampleLine = SampleLine(0.0)
        self._unwritten: List[SampleLine] = []
        self._by_number: Dict[str, int] = {}
        self._trees: FrozenSet[int] = frozenset()
        self.peak_bytes: Dict[int, int] = {}

    def sample(
        self, now_s: float, trees: Mapping[int, Tree], *, awaited: bool = False
    ) -> SampleLine | None:
        """A sample if one is due. With no process running and none awaited there is none."""
        if not (trees or awaited) or now_s - self._machine_s < self.every_s:
            return None
        self._machine_s = now_s
        if now_s - self._tree_s >= TREE_EVERY_S or self._trees != trees.keys():
            self._tree_s = now_s
            self._sample_trees(now_s, trees)
        machine = self._guardrail.machine()
        sample = SampleLine(
            at_s=now_s,
            tree_bytes=sum(self._by_number.values()) if self._by_number else None,
            headroom_bytes=self._guardrail.headroom_bytes(machine),
            available_bytes=machine.available_bytes,
            swap_used_bytes=machine.swap_used_bytes,
            process_bytes=self._by_number,
            **self._pressure,
            **self._rare,
        )
        left_bytes = sample.headroom_bytes  # None: no number to act on, however often it is asked
        near = self._guarded and left_bytes is not None and left_bytes < self._close_bytes
        self.every_s = CLOSE_EVERY_S if near else CALM_EVERY_S
        # The rules pass over a look that found no number, so it must not push out one that did.
        with_headroom = [one for one in self._unwritten if one.headroom_bytes is not None]
        before = SAMPLES_PER_DECISION if sample.headroom_bytes is None else SAMPLES_PER_DECISION - 1
        self._unwritten = [*with_headroom[-before:], sample]
        return sample

    def _sample_trees(self, now_s: float, trees: Mapping[int, Tree]) -> None:
        self._trees = frozenset(trees)
        self._by_number = {}  # a new one: samples keep the old
        for process, tree in trees.items():
            size = tree.read_bytes(now_s)
            if size is not None:
                self._by_number[str(process)] = size
                self.peak_bytes[process] = max(size, self.peak_bytes.get(process, 0))
        self._pressure = self._instruments.pressure()
        self._rare.update(self._instruments.poll(now_s, tuple(trees.values())))

    def due(self, now_s: float) -> tuple[SampleLine, ...]:
        """The samples to write now, if it is time or memory has changed markedly."""
        if not self._unwritten:
            return ()
        before, now = self._written.tree_bytes or 0, self._unwritten[-1].tree_bytes or 0
        change = abs(now - before)
        marked = change > NOTABLE_BYTES and change > NOTABLE_RATIO * before
        if now_s - self._written_s < WRITE_EVERY_S and not marked:
            return ()
        return self.flush()

    def flush(self) -> tuple[SampleLine, ...]:
        """Those of the last two looks that are not written yet.

        Always both: whatever was decided after them, a reader finds them last and in order.
        """
        found = tuple(self._unwritten)
        if found:
            self._written, self._written_s = found[-1], found[-1].at_s
            self._rare = {}
        self._unwritten = []
        return found
