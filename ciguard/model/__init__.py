"""The values of plans, records and runs, which all folders share.

A unit is a part of a suite that a plan assigns (a test or a file), a case is a result that a
framework reports, a leg is one execution of a shard by a job (docs/glossary.md). `None` means not
measured and is never 0. Sizes are in bytes, times in seconds; `at_s` counts from the start of the
leg, on a monotonic clock. Standard library only, Python 3.8+: the program that runs a shard
contains this folder.
"""

from ciguard.model.plan import (
    GUARD_RAILS,
    Block,
    CoverageFiles,
    CulpritCandidate,
    DeclaredPeak,
    Exclusion,
    GuardRail,
    InventorySummary,
    LegPolicy,
    Orphan,
    Plan,
    PlannedUnit,
    PlanNote,
    PlanNoteKind,
    Pool,
    Prediction,
    Shard,
    ShardCountOption,
    Suite,
    UnitCount,
    Variant,
    count_units,
    repository_path,
)
from ciguard.model.record import (
    TIME_UNITS,
    DefaultsLine,
    EndLine,
    EventLine,
    Line,
    MetricLine,
    PeakLine,
    ProcessEndLine,
    ProcessLine,
    Record,
    Result,
    Runner,
    SampleLine,
    ShardLine,
    StartLine,
)
from ciguard.model.types import (
    BAD_OUTCOMES,
    DRILL_KINDS,
    ENDINGS,
    FAIL_CONDITIONS,
    MEASURED_BY,
    MEMORY_ENDINGS,
    OUTCOMES,
    SCHEMA,
    SLOTS,
    STANDINGS,
    CaseKey,
    DrillKind,
    EmptyPolicy,
    Ending,
    EventKind,
    FailCondition,
    MeasuredBy,
    Outcome,
    Standing,
    UnitKey,
)
