"""Configuration -> suites and pools of a plan, and what is known of GitHub's hosted runners. Pure.

Facts of 2026-11. Memory and cores of the standard runners are those of a private repository (the
smaller ones): a budget too small costs time, one too large costs the shard. Prices in USD a minute,
each job rounded up to whole minutes. Source: docs.github.com, "GitHub-hosted runners" and "Actions
runner pricing".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ciguard.config.declared_memory import Need, parse_size
from ciguard.config.file import Config
from ciguard.config.sections import PoolConfig, VariantConfig
from ciguard.errors import UsageError
from ciguard.model import DeclaredPeak, Pool, Suite, Variant
from ciguard.run.frameworks.registry import FRAMEWORKS, framework
from ciguard.workflow.matrix import Combination, texts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.codec.inventory_file import InventoryUnit


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


def with_inventory_suites(config: Config, units: Sequence[InventoryUnit]) -> Config:
    """Where no suite is configured, those that an inventory names are run as the default one is."""
    suite_keys = {(unit.suite, unit.variant) for unit in units}
    if "suite" in config.model_fields_set or suite_keys <= {("", "")}:
        return config
    (default,) = config.suite.values()
    found = {
        name: default.model_copy(
            update={
                "variant": {
                    variant_name: VariantConfig()
                    for suite, variant_name in sorted(suite_keys)
                    if suite == name
                }
            }
        )
        for name in sorted({suite for suite, _ in suite_keys})
    }
    return config.model_copy(update={"suite": found})


def with_tool(config: Config, units: Sequence[InventoryUnit], tool: str) -> Config:
    """As above, for suites that somebody's own job runs with this tool, such as "go test"."""
    if "suite" in config.model_fields_set:
        return config
    own: dict[str, Any] = {"framework": "command", "command": tuple(tool.split())}
    update = {"framework": tool} if tool in FRAMEWORKS else own
    suites = with_inventory_suites(config, units).suite
    found = {name: suite.model_copy(update=update) for name, suite in suites.items()}
    return config.model_copy(update={"suite": found})


def configured_suites(config: Config) -> dict[str, Suite] | None:
    """The suites that somebody configured; None where they are the default or an inventory's."""
    return suites_of(config) if "suite" in config.model_fields_set else None


def suites_of(config: Config) -> dict[str, Suite]:
    """The suites of a plan, by name.

    Raises:
        UsageError: a framework that has no command of its own was given none.
    """
    found, needs = {}, needs_of(config)
    for name, entry in sorted(config.suite.items()):
        adapter = framework(entry.framework)
        command_ = entry.command or adapter.default_command
        if not command_:
            what = f"framework {entry.framework} has no command of its own"
            fix = 'set command = ["program", "{units_file}", ...]'
            raise UsageError(what, where=f"suite.{name}", fix=fix)
        found[name] = Suite(
            framework=entry.framework,
            command=command_,
            cwd=entry.cwd,
            args=entry.args,
            env=entry.env,
            variants={key: Variant(one.args, one.env) for key, one in entry.variant.items()}
            or {"": Variant()},
            list_command=entry.list_command,
            exclude=entry.exclude,
            results=entry.results,
            timeout_s=entry.timeout,
            failed_exit_codes=entry.failed_exit_codes,
            closes_units=entry.closes_units or adapter.closes_units,
            declared_peaks=tuple(
                DeclaredPeak(one.units, one.memory.bytes if one.memory else None)
                for one in needs[name]
            ),
        )
    return found


def pools_of(config: Config, names: Sequence[str]) -> dict[str, Pool]:
    """The pools that may be used, the first one first."""
    found = {}
    for name in names or config.pool:
        if name not in config.pool:
            fix = f"the configuration has: {', '.join(sorted(config.pool))}"
            raise UsageError(f"no pool {name!r}", where="--pool", fix=fix)
        entry = config.pool[name]
        hosted = HOSTED.get(entry.runs_on) if isinstance(entry.runs_on, str) else None
        price = hosted.usd_per_minute if hosted and entry.price is None else entry.price
        found[name] = Pool(
            runs_on=entry.runs_on,
            cpus=entry.cpus or (hosted.cpus if hosted else None),
            memory_bytes=entry.memory or (hosted.memory_bytes if hosted else None),
            reserve_bytes=entry.reserve,
            env=entry.env,
            usd_per_minute=price,
            concurrency=entry.concurrency,
            setup_s=entry.setup,
        )
    return found


def needs_of(config: Config) -> dict[str, tuple[Need, ...]]:
    """What tests are declared to need, by suite."""
    return {
        name: tuple(
            Need(one.units, *(parse_size(text) if text else None for text in (one.memory, one.gpu)))
            for one in entry.needs
        )
        for name, entry in config.suite.items()
    }


def gpu_bytes_of(config: Config, pools: Iterable[str]) -> dict[str, int]:
    """Memory of one GPU of each of these pools that have any."""
    sizes = {name: config.pool[name].gpu_memory for name in pools if name in config.pool}
    return {name: size for name, size in sizes.items() if size}


def config_of_suite(config: Config, name: str) -> Config:
    """The configuration with this suite alone; with all of the defaults where it has none at all.

    Raises:
        UsageError: only others are configured.
    """
    if name not in config.suite:
        if "suite" in config.model_fields_set:
            fix = f"pass one of {', '.join(map(repr, sorted(config.suite)))}"
            raise UsageError(f"no suite {name!r}", where="--suite", fix=fix)
        (default,) = config.suite.values()
        return config.model_copy(update={"suite": {name: default}})
    return config.model_copy(update={"suite": {name: config.suite[name]}})


def with_combinations(
    suites: Mapping[str, Suite], pools: Mapping[str, Pool], combinations: Sequence[Combination]
) -> dict[str, Suite]:
    """The suites with a variant for each combination of a job's matrix.

    A combination runs in the pool whose runner it names: one of `pools`, else GitHub's own.

    Raises:
        UsageError: a suite has variants of its own.
    """
    found = {}
    for name, suite in suites.items():
        if set(suite.variants) != {""}:
            fix = "leave [suite.NAME.variant] out: the matrix says how the suite is run"
            raise UsageError("has variants of its own", where=f"suite.{name}", fix=fix)
        variants = {
            one.label: Variant(matrix=one.values, pool=_pool_of_values(one.values, pools))
            for one in combinations
        }
        found[name] = replace(suite, variants=variants)
    return found


def _pool_of_values(values: Mapping[str, Any], pools: Mapping[str, Pool]) -> str:
    """The pool whose runner is among the values of a combination; "" where none is."""
    named = {pool.runs_on: name for name, pool in pools.items() if isinstance(pool.runs_on, str)}
    labels = [text for text in texts_of(values) if text in named or text in HOSTED]
    return named.get(labels[0], labels[0]) if labels else ""


def in_each_combination(
    units: Iterable[InventoryUnit], combinations: Sequence[Combination]
) -> tuple[InventoryUnit, ...]:
    """The units, once as the variant of each combination."""
    listed = tuple(units)
    return tuple(replace(unit, variant=one.label) for one in combinations for unit in listed)


def with_hosted_pools(pools: Mapping[str, Pool], suites: Mapping[str, Suite]) -> dict[str, Pool]:
    """The pools, and one for each of GitHub's runners that a combination names besides."""
    named = {one.pool for suite in suites.values() for one in suite.variants.values()}
    hosted = {name: PoolConfig(runs_on=name) for name in sorted(named - pools.keys() - {""})}
    return {**pools, **(pools_of(Config(pool=hosted), ()) if hosted else {})}


def with_runner_pools(
    pools: Mapping[str, Pool], runners: Iterable[str]
) -> tuple[dict[str, Pool], dict[str, str]]:
    """The pools with one for each other runner that jobs name, and by runner the pool's name.

    The first pool is that of jobs whose runner is not known.
    """
    known = {pool.runs_on: name for name, pool in pools.items() if isinstance(pool.runs_on, str)}
    names = {runner: known.get(runner, runner) for runner in runners}
    new = {name: PoolConfig(runs_on=name) for name in sorted({*names.values()} - {*pools, ""})}
    found = {**pools, **(pools_of(Config(pool=new), ()) if new else {})}
    return found, {**names, "": next(iter(pools))}


def prices_of(config: Config) -> dict[str, float]:
    """What a minute costs, in USD, by pool, where that is known."""
    pools = pools_of(config, ())
    return {name: p.usd_per_minute for name, p in pools.items() if p.usd_per_minute is not None}


def pool_of_suites(config: Config, chosen: Mapping[str, Pool]) -> dict[str, str]:
    """By suite: its own pool where that may be used, else the first one."""
    first = next(iter(chosen))
    return {
        name: entry.pool if entry.pool is not None and entry.pool in chosen else first
        for name, entry in config.suite.items()
    }
