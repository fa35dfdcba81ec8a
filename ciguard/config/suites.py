"""Suites and pools of a plan from the configuration, and facts of GitHub's hosted runners. Pure.

Facts of 2026-11. Memory and cores of the standard runners are those of a private repository (the
smaller ones): a budget that is too small costs time, one that is too large costs the shard. Prices
in USD a minute, each job rounded up to whole minutes. Source: docs.github.com, "GitHub-hosted
runners" and "Actions runner pricing".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.config.declared_memory import Need, parse_size
from ciguard.config.file import Config
from ciguard.config.sections import PoolConfig, VariantConfig
from ciguard.errors import UsageError
from ciguard.model import CoverageFiles, DeclaredPeak, Pool, Suite, Variant
from ciguard.run.frameworks.registry import FRAMEWORKS, framework
from ciguard.text import size
from ciguard.workflow.matrix import Combination, texts_of

HOSTED: Final = {
    label: Pool(label, cpus, gib << 30, usd_per_minute=price)
    # Label, cores, GiB of memory, USD a minute.
    for label, cpus, gib, price in (
        ("ubuntu-latest", 2, 8, 0.006),
        ("ubuntu-24.04", 2, 8, 0.006),
        ("ubuntu-22.04", 2, 8, 0.006),
        ("windows-latest", 2, 8, 0.010),
        ("macos-latest", 3, 7, 0.062),
        ("ubuntu-slim", 1, 5, 0.002),
        ("ubuntu-latest-4-cores", 4, 16, 0.012),
        ("ubuntu-latest-8-cores", 8, 32, 0.022),
        ("ubuntu-latest-16-cores", 16, 64, 0.042),
        ("ubuntu-latest-32-cores", 32, 128, 0.082),
        ("ubuntu-latest-64-cores", 64, 256, 0.162),
        ("ubuntu-latest-96-cores", 96, 384, 0.252),
        ("windows-latest-4-cores", 4, 16, 0.022),
        ("windows-latest-8-cores", 8, 32, 0.042),
        ("windows-latest-16-cores", 16, 64, 0.082),
        ("windows-latest-32-cores", 32, 128, 0.162),
    )
}

# By format, the files that its tools write unless told otherwise: coverage.py; Istanbul's lcov, of
# Jest, Vitest, c8 and nyc; the names in Go's and codecov's guides; coverlet, coverage.py, Istanbul.
COVERAGE_PATHS: Final = {
    "coverage.py": (".coverage", ".coverage.*"),
    "lcov": ("coverage/lcov.info", "lcov.info"),
    "go": ("coverage.out", "cover.out", "coverage.txt"),
    "cobertura": ("**/coverage.cobertura.xml", "coverage.xml", "coverage/cobertura-coverage.xml"),
    "opencover": ("**/coverage.opencover.xml",),
}


def coverage_format(config: Config, suite: str) -> str:
    """Return the format of a suite's coverage; "" for one that collects none."""
    return config.coverage.format if suite in (config.coverage.suites or (suite,)) else ""


def with_inventory_suites(config: Config, units: Sequence[InventoryUnit]) -> Config:
    """Without a configured suite, add those of an inventory, with the settings of the default."""
    suite_keys = {(unit.suite, unit.variant) for unit in units}
    if "suite" in config.model_fields_set or suite_keys <= {("", "")}:
        return config
    (default,) = config.suite.values()
    suites = {
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
    return config.model_copy(update={"suite": suites})


def with_tool(config: Config, units: Sequence[InventoryUnit], tool: str) -> Config:
    """Add suites as `with_inventory_suites` does, which a job runs with a tool, as "go test"."""
    if "suite" in config.model_fields_set:
        return config
    own: dict[str, Any] = {"framework": "command", "command": tuple(tool.split())}
    update = {"framework": tool} if tool in FRAMEWORKS else own
    suites = with_inventory_suites(config, units).suite
    suites = {name: suite.model_copy(update=update) for name, suite in suites.items()}
    return config.model_copy(update={"suite": suites})


def suites_of(config: Config) -> dict[str, Suite]:
    """Return the suites of a plan, by name.

    Raises:
        UsageError: a framework without a default command has none configured.
    """
    suites, needs, coverage = {}, needs_of(config), config.coverage
    paths = coverage.paths or COVERAGE_PATHS.get(coverage.format, ())
    files = CoverageFiles(coverage.format, paths, coverage.without)
    for name, entry in sorted(config.suite.items()):
        adapter = framework(entry.framework)
        command = entry.command or adapter.default_command
        if not command:
            what = f"framework {entry.framework} needs a command"
            fix = 'set command = ["program", "{units_file}", ...]'
            raise UsageError(what, where=f"suite.{name}", fix=fix)
        if entry.parallel is not None and not adapter.has_parallel:
            what = f"framework {entry.framework} has no key `parallel`"
            raise UsageError(what, where=f"suite.{name}", fix="leave it out")
        suites[name] = Suite(
            framework=entry.framework,
            command=command,
            cwd=entry.cwd,
            args=entry.args,
            env=entry.env,
            variants={key: Variant(each.args, each.env) for key, each in entry.variant.items()}
            or {"": Variant()},
            list_command=entry.list_command,
            exclude=entry.exclude,
            results=entry.results,
            timeout_s=entry.timeout,
            failed_exit_codes=entry.failed_exit_codes,
            closes_units=entry.closes_units or adapter.closes_units,
            parallel=entry.parallel,
            workers=entry.workers,
            declared_peaks=tuple(DeclaredPeak(need.units, need.memory) for need in needs[name]),
            coverage=files if coverage_format(config, name) else None,
        )
    return suites


def pools_of(config: Config, names: Sequence[str]) -> dict[str, Pool]:
    """Return the named pools, the preferred one first; all pools without names."""
    pools = {}
    for name in names or config.pool:
        if name not in config.pool:
            fix = f"the configuration has: {', '.join(sorted(config.pool))}"
            raise UsageError(f"no pool {name!r}", where="--pool", fix=fix)
        entry = config.pool[name]
        known = HOSTED.get(str(entry.runs_on), Pool(entry.runs_on))
        memory_bytes = entry.memory or known.memory_bytes
        if memory_bytes is not None and memory_bytes <= entry.reserve:
            what = f"memory {size(memory_bytes)} is not above reserve {size(entry.reserve)}"
            raise UsageError(what, where=f"pool.{name}", fix='set a smaller reserve, as "100MiB"')
        pools[name] = Pool(
            runs_on=entry.runs_on,
            cpus=entry.cpus or known.cpus,
            memory_bytes=memory_bytes,
            reserve_bytes=entry.reserve,
            env=entry.env,
            usd_per_minute=known.usd_per_minute if entry.price is None else entry.price,
            concurrency=entry.concurrency,
            setup_s=entry.setup,
        )
    return pools


def needs_of(config: Config) -> dict[str, tuple[Need, ...]]:
    return {
        name: tuple(
            Need(row.units, *(parse_size(text) if text else None for text in (row.memory, row.gpu)))
            for row in entry.needs
        )
        for name, entry in config.suite.items()
    }


def gpu_bytes_of(config: Config, pools: Iterable[str]) -> dict[str, int]:
    """Return the memory of one GPU, by pool with a GPU."""
    sizes = {name: config.pool[name].gpu_memory for name in pools if name in config.pool}
    return {name: size for name, size in sizes.items() if size}


def config_of_suite(config: Config, name: str) -> Config:
    """Return the configuration with this suite alone, which has defaults if none is configured.

    Raises:
        UsageError: only other suites are configured.
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
    """Add to suites a variant for each combination of a job's matrix.

    A combination runs in the pool whose runner it names: one of `pools`, otherwise GitHub's own.

    Raises:
        UsageError: a suite has its own variants.
    """
    combined = {}
    for name, suite in suites.items():
        if set(suite.variants) != {""}:
            fix = "leave [suite.NAME.variant] out: the matrix replaces it"
            raise UsageError("has variants beside a matrix", where=f"suite.{name}", fix=fix)
        variants = {
            each.label: Variant(matrix=each.values, pool=_pool_of_values(each.values, pools))
            for each in combinations
        }
        combined[name] = replace(suite, variants=variants)
    return combined


def _pool_of_values(values: Mapping[str, Any], pools: Mapping[str, Pool]) -> str:
    """Return the pool whose runner is among the values of a combination; "" for none."""
    named = {pool.runs_on: name for name, pool in pools.items() if isinstance(pool.runs_on, str)}
    labels = [text for text in texts_of(values) if text in named or text in HOSTED]
    return named.get(labels[0], labels[0]) if labels else ""


def in_each_combination(
    units: Iterable[InventoryUnit], combinations: Sequence[Combination]
) -> tuple[InventoryUnit, ...]:
    """Repeat the units as a variant for each combination."""
    listed = tuple(units)
    return tuple(replace(unit, variant=each.label) for each in combinations for unit in listed)


def with_pools(pools: Mapping[str, Pool], runners: set[str]) -> dict[str, Pool]:
    """Add a pool for each of these runners that has none."""
    new = {name: PoolConfig(runs_on=name) for name in sorted(runners - {*pools, ""})}
    return {**pools, **(pools_of(Config(pool=new), ()) if new else {})}


def with_runner_pools(
    pools: Mapping[str, Pool], runners: Iterable[str]
) -> tuple[dict[str, Pool], dict[str, str]]:
    """Add a pool for each other runner that jobs name; also return the pool of each runner.

    The first pool is that of jobs with an unknown runner.
    """
    known = {pool.runs_on: name for name, pool in pools.items() if isinstance(pool.runs_on, str)}
    names = {runner: known.get(runner, runner) for runner in runners}
    return with_pools(pools, {*names.values()}), {**names, "": next(iter(pools))}


def prices_of(config: Config) -> dict[str, float]:
    """Return the known prices of a minute in USD, by pool."""
    pools = pools_of(config, ())
    return {name: p.usd_per_minute for name, p in pools.items() if p.usd_per_minute is not None}


def pool_of_suites(config: Config, chosen: Mapping[str, Pool]) -> dict[str, str]:
    """Return the pool of each suite: its own if it is chosen, otherwise the first one."""
    first = next(iter(chosen))
    return {
        name: entry.pool if entry.pool is not None and entry.pool in chosen else first
        for name, entry in config.suite.items()
    }
