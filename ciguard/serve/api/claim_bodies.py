"""Bodies of requests and answers about blocks of a run, with their limits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

# At run time: pydantic reads the annotations.
from ciguard.serve.block_exchange import ClaimState
from ciguard.serve.state.claim_rows import ClaimBlock, ClaimLeg

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LEGS: Final = 256  # jobs of a matrix
MAX_BLOCKS: Final = 32  # of a leg
MAX_S: Final = 35 * 24 * 3600  # a run of GitHub takes no longer
# A shard's key, as `model/shard_names.py` makes them; of its blocks, with a number from 1.
LEG: Final = "[A-Za-z0-9_][A-Za-z0-9._-]{0,99}"
BLOCK: Final = rf"{LEG}\.[1-9][0-9]{{0,2}}"
_BLOCK_NUMBER: Final = re.compile(r"\.[1-9][0-9]{0,2}")

PlanId = Annotated[str, StringConstraints(pattern="^[0-9a-f]{12}$")]
LegKey = Annotated[str, StringConstraints(pattern=f"^{LEG}$")]
BlockKey = Annotated[str, StringConstraints(pattern=f"^{BLOCK}$")]
Seconds = Annotated[float, Field(ge=0, le=MAX_S, allow_inf_nan=False)]


class _Body(BaseModel):
    """Keys that a later client adds are ignored."""

    model_config = ConfigDict(frozen=True, strict=True)


class RegisteredLeg(_Body):
    """A leg: predicted seconds of its own part, and of its blocks in the order of their units."""

    group: Annotated[str, Field(max_length=256)]
    own_s: Seconds
    blocks: Annotated[dict[BlockKey, Seconds], Field(max_length=MAX_BLOCKS)]


class Registration(_Body):
    """The legs of a plan."""

    plan: PlanId
    legs: Annotated[dict[LegKey, RegisteredLeg], Field(min_length=1, max_length=MAX_LEGS)]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for name, leg in self.legs.items():
            for block in leg.blocks:
                if not _BLOCK_NUMBER.fullmatch(block.removeprefix(name)):
                    what = f"legs.{name}: expected names of blocks as {name}.1, found {block}"
                    raise ValueError(what)
        return self

    def rows(self) -> tuple[list[ClaimLeg], list[ClaimBlock]]:
        """The legs and their blocks, as they are stored."""
        legs = [ClaimLeg(name, leg.group, leg.own_s) for name, leg in self.legs.items()]
        return legs, list(self._blocks())

    def _blocks(self) -> Iterator[ClaimBlock]:
        for name, leg in self.legs.items():
            for place, (block, wall_s) in enumerate(leg.blocks.items()):
                yield ClaimBlock(block, name, place, wall_s)


class RegistrationAnswer(_Body):
    """The token that the legs of the plan show."""

    token: str


class ClaimBody(_Body):
    """What a leg says of itself when it begins, wants a block, or goes on without the service."""

    plan: PlanId
    leg: LegKey
    state: ClaimState
    elapsed_s: Seconds
    ready_in_s: Seconds = 0.0
    done_s: Seconds = 0.0
    left_s: Seconds | None = None


class ClaimAnswer(_Body):
    """A block to run, own ones with the leg that runs each, and others' that the leg had before."""

    block: str | None
    taken: dict[str, str]
    held: tuple[str, ...]


class ConfirmationBody(_Body):
    """Which leg runs the block of the path."""

    plan: PlanId
    leg: LegKey
