"""What a plan is made for: suites, pools, a matrix or a listing, as the command line names them."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ciguard.codec import inventory_file as inventory_codec
from ciguard.codec.results.base import gunzip
from ciguard.config.suites import (
    config_of_suite,
    in_each_combination,
    pools_of,
    suites_of,
    with_combinations,
    with_hosted_pools,
    with_inventory_suites,
)
from ciguard.errors import InputError, UsageError
from ciguard.plan.collection import reject_multiline_ids
from ciguard.plan.fixed_shards import FixedAssignment, fixed_assignment
from ciguard.plan.inventory import reject_duplicates
from ciguard.plan.outputs import MATRIX_KEY
from ciguard.run.frameworks.listing import list_invocation
from ciguard.run.frameworks.registry import framework
from ciguard.sources import local
from ciguard.workflow.matrix import Combination, read_matrix, take_axis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ciguard.codec.inventory_file import InventoryUnit
    from ciguard.config.file import Config
    from ciguard.config.invocation import Invocation
    from ciguard.model import Pool, Suite


@dataclass(frozen=True, slots=True)
class Scope:
    """What is planned, before anything is collected.

    Attributes:
        listed: the units, where somebody else has listed them.
        given: the shards, where the listing names them.
        per_combination: each variant of a suite is a combination of a job's matrix.
        taken_shards: number of values of an axis of the matrix that was a shard by hand.
        lists_in_legs: `listed` are the units of a past run; each leg lists what exists.
    """

    config: Config
    suites: Mapping[str, Suite]
    pools: Mapping[str, Pool]
    listed: Sequence[InventoryUnit] | None = None
    given: FixedAssignment | None = None
    per_combination: bool = False
    taken_shards: int | None = None
    lists_in_legs: bool = False


def check_listed_by_legs(scope: Scope, **others: str | None) -> None:
    """Refuse what needs a listing before the plan.

    Raises:
        UsageError: it was asked for.
        InputError: a suite has no command that lists, so that every leg would end without a test.
    """
    where = "--collect history"
    if not scope.per_combination:
        fix = "pass --matrix; an empty file is the matrix of a job without one"
        raise UsageError("is for the jobs of a matrix", where=where, fix=fix)
    for name in (name for name, value in others.items() if value is not None):
        fix = f"leave --{'inventory' if name == 'listed' else name} out, or pass --collect here"
        raise UsageError("the tests are not known before the jobs run", where=where, fix=fix)
    for name, suite in scope.suites.items():
        try:
            list_invocation(framework(suite.framework), suite, "")
        except InputError as error:
            fix = f'set list = ["program", "argument", ...] in [suite.{name}]'
            raise InputError(error.what, where=f"suite {name}", fix=fix) from error


def read_scope(
    invocation: Invocation,
    *,
    listed: str | None,
    suite: str | None,
    matrix_file: str | None,
    take: str | None,
    pools: tuple[str, ...],
) -> Scope:
    """Read what the command line names.

    Raises:
        CiguardError: a file is not what it should be, or a name is unknown.
    """
    read = _read_inventory(invocation.folder, listed) if listed is not None else None
    config = with_inventory_suites(invocation.config(), read.units if read else ())
    config = config if suite is None else config_of_suite(config, suite)
    scope = Scope(config, suites_of(config), pools_of(config, pools))
    if read is not None:
        units = inventory_codec.resolve_suites(read.units, scope.suites, listed or "")
        reject_multiline_ids(units, scope.suites, listed or "")
        given = fixed_assignment(units, read.empty, listed or "")
        scope = replace(scope, listed=given.units if given else units, given=given)
    if matrix_file is None:
        if take is not None:
            raise UsageError("no matrix to take an axis of", where="--take", fix="pass --matrix")
        return scope
    combinations, taken = _read_combinations(invocation.folder, matrix_file, take)
    suites = with_combinations(scope.suites, scope.pools, combinations)
    all_units = in_each_combination(scope.listed, combinations) if scope.listed else scope.listed
    chosen = with_hosted_pools(scope.pools, suites)
    scope = replace(scope, suites=suites, pools=chosen, listed=all_units)
    return replace(scope, per_combination=True, taken_shards=taken)


def reject_choices(flags: Mapping[str, str | None], **others: str | None) -> None:
    """Where a listing names the shards there is nothing to choose."""
    names = ("shards", "target_wall", "group", "processes")
    given = {**{name: flags.get(name) for name in names}, **others}
    for name in (name for name, value in given.items() if value is not None):
        fix = "leave it out, or list the units without a shard"
        what = "the inventory says in which shard each unit is"
        raise UsageError(what, where=f"--{name.replace('_', '-')}", fix=fix)


def _read_inventory(folder: Path, path: str) -> inventory_codec.Inventory:
    content = local.read(path if path == "-" else folder / path)
    source = "stdin" if path == "-" else path
    found = inventory_codec.read(gunzip(io.BytesIO(content)), source)
    reject_duplicates(found.repeated, source)
    return found


def _read_combinations(
    folder: Path, path: str, take: str | None
) -> tuple[tuple[Combination, ...], int | None]:
    """The combinations of the matrix in a file, and the number of values of an axis taken out.

    Raises:
        InputError: it is no matrix that GitHub takes, or has our key.
    """
    where = "stdin" if path == "-" else path
    content = local.read(path if path == "-" else folder / path)
    text, taken = content.decode("utf-8", "replace"), None
    if take is not None:
        text, taken = take_axis(text, take, where)
    found = read_matrix(text, where)
    if any(name.lower() == MATRIX_KEY for one in found for name in one.values):
        fix = "rename the key: each entry of the plan's matrix has its shard there"
        raise InputError(f"has a key {MATRIX_KEY!r}", where=where, fix=fix)
    return found, taken
