"""How a run can come, one row each: what its legs left, what GitHub says, what must come out."""

from guard.cases.context_cases import EVENTS, NEEDS, REFUSALS
from guard.cases.job_cases import ATTEMPTS, DEATHS, MATRICES
from guard.cases.leg_cases import INTEGRITY, INVENTORIES, RECORDS

CASES = {
    **MATRICES,
    **DEATHS,
    **ATTEMPTS,
    **RECORDS,
    **INTEGRITY,
    **INVENTORIES,
    **NEEDS,
    **EVENTS,
    **REFUSALS,
}
