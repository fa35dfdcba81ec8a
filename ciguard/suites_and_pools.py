"""Configuration -> suites and pools of a plan. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.config import VariantConfig
from ciguard.errors import UsageError
from ciguard.hosted_runners import HOSTED
from ciguard.model import Pool, Suite, Variant
from ciguard.run.frameworks.registry import framework

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.codec.inventory_file import InventoryUnit
    from ciguard.config import Config
    from ciguard.hosted_runners import HostedRunner


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


def configured_suites(config: Config) -> dict[str, Suite] | None:
    """The suites that somebody configured; None where they are the default or an inventory's."""
    return suites_of(config) if "suite" in config.model_fields_set else None


def suites_of(config: Config) -> dict[str, Suite]:
    """The suites of a plan, by name.

    Raises:
        UsageError: a framework that has no command of its own was given none.
    """
    found = {}
    for name, entry in sorted(config.suite.items()):
        command_ = entry.command or framework(entry.framework).DEFAULT_COMMAND
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
        found[name] = Pool(
            runs_on=entry.runs_on,
            cpus=entry.cpus or (hosted.cpus if hosted else None),
            memory_bytes=entry.memory or (hosted.memory_bytes if hosted else None),
            reserve_bytes=entry.reserve,
            env=entry.env,
            usd_per_minute=_price(entry.price, hosted),
            concurrency=entry.concurrency,
            setup_s=entry.setup,
        )
    return found


def _price(configured: float | None, hosted: HostedRunner | None) -> float | None:
    if configured is not None:
        return configured
    return hosted.usd_per_minute if hosted else None


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
