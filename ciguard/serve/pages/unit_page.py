"""`/OWNER/NAME/tests?unit=...`: outcomes of a test, and SVG charts of its time and peak, by run."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ciguard.errors import UsageError
from ciguard.model import UnitKey
from ciguard.render.pages import UnitPage
from ciguard.serve.pages.slowest_and_flaky_pages import flaky_units
from ciguard.serve.pages.visit import Visit
from ciguard.serve.state import run_rows
from ciguard.text import whole_name

MAX_NAME: Final = 20_000  # characters


def unit_page(visit: Visit) -> UnitPage:
    """Find a test's runs.

    Raises:
        PageNotFound: as `Visit.find_repository`.
        UsageError: no test is named.
        RemoteError: results cannot be read.
    """
    branch = visit.query.get("branch", "")
    names = {name: visit.query.get(name, "") for name in ("suite", "variant", "unit", "case")}
    with visit.service.database.read() as connection:
        repository = visit.find_repository(connection)
        owners = run_rows.facts_of_tests(connection, repository.id, "owners_of")
        is_base = branch in ("", repository.default_branch)  # a fork may have its name
        of_branch = {"is_base_branch": True} if is_base else {"branch": branch}
        filters = {} if branch == "all" else of_branch
        run_ids = run_rows.ids_of(connection, repository.id, **filters)
    if not names["unit"]:
        fix = "follow a link of a run, or add unit=NAME to the address"
        raise UsageError("expected the name of a test", where="unit", fix=fix)
    for name, value in names.items():
        if len(value) > MAX_NAME:
            raise UsageError(f"expected at most {MAX_NAME:,} characters", where=name)
    key = UnitKey(names["suite"], names["variant"], names["unit"])
    case = names["case"] or None
    answer = visit.read_model.unit_runs(repository.id, key, case, run_ids=run_ids)
    first_ms = min((run.at_ms for run in answer.value), default=0)
    with visit.service.database.read() as connection:
        commits = {
            (run.run_id, run.run_attempt): run
            for *_, run in run_rows.commit_runs(connection, repository.id, first_ms)
        }
    runs = tuple(
        replace(run, branch=commit.branch, head_sha=commit.head_sha)
        for run in answer.value
        if (commit := commits.get((run.run_id, run.run_attempt)))
    )
    named, missing = owners.get(whole_name(key)), answer.missing_names
    flaky = flaky_units(visit, repository, [key.unit])
    return UnitPage(repository.full_name, *key, case, named, missing, branch, flaky, runs)
