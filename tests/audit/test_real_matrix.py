"""The matrix of a real repository in April and August, with the counts of two other evaluators."""

from __future__ import annotations

import gzip
import io
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from guard.test_result_files import trx

from ciguard.audit.evaluator import Evaluator
from ciguard.audit.filters import vstest
from ciguard.audit.filters.expression import positions_in
from ciguard.audit.findings import Audit, audit
from ciguard.audit.shard_filters import read_json
from ciguard.audit.test_set import TestSet
from ciguard.codec import inventory_file, plan_file

if TYPE_CHECKING:
    from conftest import Ciguard

    from ciguard.model import Plan

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("CIGUARD_SHARED_DATA", ROOT.parent / "shared" / "data")) / "aidotnet"

pytestmark = pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"no real matrix at {SHARED}; CIGUARD_SHARED_DATA says where"
)


def audited(date: str) -> Audit:
    content = gzip.decompress((SHARED / f"tests_{date}.json.gz").read_bytes())
    units = inventory_file.read(io.BytesIO(content), date).units
    matrix = read_json(io.BytesIO((SHARED / f"shards_{date}.json").read_bytes()), date)
    return audit(matrix, Evaluator(TestSet(units), vstest))


def plan_of_april(folder: Path, ciguard: Ciguard) -> Plan:
    """Written by the command; 9 MB."""
    names = (str(SHARED / "shards_2026-04-14.json"), str(SHARED / "tests_2026-04-14.json.gz"))
    words = ("audit", "--matrix", names[0], "--tests", names[1], "-o", "plan.json")
    ciguard(*words, cwd=folder)
    return plan_file.decode((folder / "plan.json").read_bytes(), "plan.json")


def counts(found: Audit) -> dict[str, object]:
    return {
        "shards": len(found.shards),
        "tests": len(found.tests.units),
        "in_several": found.in_several.bit_count(),
        "executions": (found.redundant, found.executions),
        "missing": {reason: tests.bit_count() for reason, tests in found.missing.items()},
        "terms": (len(found.empty_terms), found.term_count),
        "empty": sum(shard.is_empty for shard in found.shards),
    }


def test_matrix_of_april_has_the_known_counts() -> None:
    found = audited("2026-04-14")
    assert counts(found) == {
        "shards": 31,
        "tests": 37_488,
        "in_several": 4_385,
        "executions": (5_117, 19_319),
        "missing": {
            "outside_projects": 314,
            "common_filter": 0,
            "label": 16,
            "not_requested": 22_956,
        },
        "terms": (3, 141),
        "empty": 2,
    }
    assert found.repeated[2].bit_count() == 732
    equal = [one for one in found.overlaps if one.kind == "equal"]
    assert [one.tests.bit_count() for one in equal] == [3_172]
    corrected = [[tests.bit_count() for tests in one.tests] for one in found.corrections]
    assert corrected == [[3_172, 1_222], [3_172, 962], [732, 988]]


def test_plan_of_april_counts_every_test_once(tmp_path: Path, ciguard: Ciguard) -> None:
    plan = plan_of_april(tmp_path, ciguard)
    planned = {unit.unit for shard in plan.shards for unit in shard.units}
    assert len(plan.shards) == 31
    assert sum(not shard.units for shard in plan.shards) == 2
    assert sum("/" in shard.job for shard in plan.shards) == 19
    assert {shard.timeout_minutes for shard in plan.shards} == {45}
    reasons = Counter(one.reason for one in plan.inventory.orphans)
    assert reasons == {"label": 16, "not_requested": 22_956}
    rules = Counter(one.rule for one in plan.inventory.excluded)
    assert rules == {"outside of the projects": 314}
    assert plan.inventory.collected == 37_488 == len(planned) + 22_972 + 314


def test_matrix_of_august_has_the_known_counts() -> None:
    found = audited("head")
    assert counts(found) == {
        "shards": 110,
        "tests": 41_192,
        "in_several": 0,
        "executions": (0, 35_742),
        "missing": {
            "outside_projects": 0,
            "common_filter": 2_653,
            "label": 146,
            "not_requested": 2_651,
        },
        "terms": (168, 524),
        "empty": 30,
    }
    assert found.orphans.bit_count() == 2_797
    # By coincidence 2,797 tests have a category at all: labels are compared, not digits.
    for place in positions_in(found.missing["label"]):
        labels = {label.lower() for label in found.tests.units[place].categories or ()}
        assert labels & {"gpu", "stress", "sweep", "modelfamilyduplicate", "serialperf"}, place
    assert found.corrections == ()


def test_results_of_april_pass_once_the_orphans_are_acknowledged(
    tmp_path: Path, ciguard: Ciguard
) -> None:
    plan = plan_of_april(tmp_path, ciguard)
    for shard in plan.shards:
        folder = tmp_path / "results" / shard.key
        folder.mkdir(parents=True)
        rows = [(unit.unit, "Passed", "") for unit in shard.units]
        (folder / "r.trx").write_bytes(trx(rows))
    words = ("guard", "--plan", "plan.json", "--results", "results/{shard}/*.trx")
    verdicts = {}
    for orphans, code in ((0, 13), (22_971, 13), (22_972, 0)):
        (tmp_path / "ciguard.toml").write_text(f"[guard]\norphans = {orphans}\n", "utf-8")
        verdicts[orphans] = ciguard(*words, cwd=tmp_path, expect=code).stdout.splitlines()
    assert verdicts[0][0].startswith("INCOMPLETE: 22,972 tests in no shard")
    assert "22,972 in no shard (acknowledged)" in " ".join(verdicts[22_972][:2])
