"""The values that all folders share, schema 1: the parts of a record, a plan and a run.

A leg is one execution of a shard by a job, a unit is what a plan divides, a case is what a
framework reports (docs/glossary.md). `None` means not measured and is never 0. Sizes are in bytes,
times in seconds; `at_s` counts from the start of the leg, on a monotonic clock. Standard library
only, Python 3.8+: this folder is part of the program that runs in a leg.
"""

from ciguard.model.plan import (
    GUARD_RAILS,
    Block,
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
    ENDINGS,
    FAIL_CONDITIONS,
    MEASURED_BY,
    MEMORY_ENDINGS,
    OUTCOMES,
    SCHEMA,
    SLOTS,
    STANDINGS,
    CaseKey,
    EmptyPolicy,
    Ending,
    EventKind,
    FailCondition,
    MeasuredBy,
    Outcome,
    Standing,
    UnitKey,
)
