"""How a run can come, one row each: what its legs left, what GitHub says, what must come out."""

from guard.cases.around import EVENTS, NEEDS, REFUSALS
from guard.cases.jobs import ATTEMPTS, DEATHS, MATRICES
from guard.cases.legs import INTEGRITY, INVENTORIES, RECORDS

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
