"""pages.json describes the JSON of each page: made of the classes, and checked with real answers.

`pytest tests/serve/api/test_page_document.py --update-golden` writes it.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
from class_schemas import ClassSchemas
from conftest import Golden
from serve.pages.asgi_client import AsgiClient
from serve.pages.conftest import filled, local
from serve.pages.filled import NEWEST

import ciguard.render
import ciguard.serve
from ciguard.render.pages import VERDICTS
from ciguard.serve.api import routes
from ciguard.serve.api.routes import openapi_document
from ciguard.serve.pages.page_routes import PAGES
from ciguard.serve.results.queries import MOVER_MEASURES, PAGE_SIZES, RANKING_COLUMNS, SORT_COLUMNS
from ciguard.serve.results.rows import OUTCOMES

__all__ = ["filled", "local"]

PLACE: Final = Path(routes.__file__).with_name("pages.json")
NUMBER: Final = {"type": "integer"}
TEXT: Final = {"type": "string"}
TIME: Final = {"type": "string", "description": "Date or time in ISO 8601, of UTC without a zone."}
# By page: operation, summary, and the query.
OPERATIONS: Final[Mapping[str, tuple[str, str, Mapping[str, Any]]]] = {
    "/index": (
        "listRepositories",
        "List the repositories, red ones first",
        {"q": TEXT, "page": NUMBER},
    ),
    "/work": ("getWork", "Get the runs that are not judged yet, and those given up", {}),
    "": (
        "listRuns",
        "List the runs of a repository, the newest first",
        {
            "branch": TEXT,
            "workflow": TEXT,
            "owner": {**TEXT, "description": "An owner of a failed test."},
            "verdict": {"enum": list(VERDICTS)},
            "pull_request": NUMBER,
            "run": NUMBER,
            "since": TIME,
            "until": TIME,
            "days": {**NUMBER, "description": "Of the charts."},
            "before": {**TEXT, "description": "The cursor: `next` of the previous page."},
        },
    ),
    "/runs/{run_id}/{attempt}": (
        "getRun",
        "Get a run and a page of its results",
        {
            "text": {**TEXT, "description": "A part of the name of a test."},
            "suite": TEXT,
            "variant": TEXT,
            "shard": TEXT,
            "outcome": {"enum": list(OUTCOMES)},
            "sort": {"enum": [*SORT_COLUMNS, *(f"-{name}" for name in SORT_COLUMNS)]},
            "page": NUMBER,
            "size": {"enum": [int(size) for size in PAGE_SIZES]},
        },
    ),
    "/runs/{run_id}/{attempt}/comparison": ("getComparison", "Get the comparison of a run", {}),
    "/offenders": (
        "listSlowestTests",
        "Rank tests by time, peak, growth, failures or retries",
        {"by": {"enum": list(RANKING_COLUMNS)}, "days": NUMBER},
    ),
    "/flaky": ("listFlakyTests", "List flaky and broken tests", {"days": NUMBER}),
    "/shards": ("listShards", "List shards by the risk of their next run", {"days": NUMBER}),
    "/costs": ("listCosts", "Sum what runs cost", {"days": NUMBER}),
    "/movers": (
        "listMovers",
        "List the tests that changed most",
        {"by": {"enum": list(MOVER_MEASURES)}, "days": NUMBER},
    ),
    "/tests": (
        "getTest",
        "Get the last runs of a test",
        {"suite": TEXT, "variant": TEXT, "unit": TEXT, "case": TEXT, "branch": TEXT},
    ),
}
REFUSALS: Final = {"400": "BadQuery", "404": "NoSuchPage", "503": "StoreAway"}
WIDTH: Final = 100
# An address of each page with something on it.
ADDRESSES: Final = {
    "/index": "/index.json",
    "/work": "/work.json",
    "": "/octo-org/shop.json",
    "/runs/{run_id}/{attempt}": f"/octo-org/shop/runs/{NEWEST - 3}/1.json",
    "/runs/{run_id}/{attempt}/comparison": f"/octo-org/shop/runs/{NEWEST - 3}/1/comparison.json",
    "/offenders": "/octo-org/shop/offenders.json",
    "/flaky": "/octo-org/shop/flaky.json",
    "/shards": "/octo-org/shop/shards.json",
    "/costs": "/octo-org/shop/costs.json",
    "/movers": "/octo-org/shop/movers.json",
    "/tests": "/octo-org/shop/tests.json?suite=unit&variant=py311&unit=a.py::flaky",
}


def named(path: str) -> str:
    """A page by its path: below its repository if it has one."""
    return re.sub(r":\w+}", "}", path.removeprefix("/{owner}/{name}"))


def page_document() -> dict[str, Any]:
    names: dict[str, Any] = {"Mapping": Mapping, "Any": Any}
    for folder in (ciguard.render, ciguard.serve):
        for module in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}."):
            if ".migrations" not in module.name:
                names |= vars(importlib.import_module(module.name))
    schemas = ClassSchemas(names, "#/components/schemas/", properties=True)
    paths = {}
    for path, build in PAGES.items():
        page = named(path)
        view = typing.get_type_hints(build, names)["return"]
        answer = schemas.of(view)
        operation, summary, query = OPERATIONS[page]
        full = re.sub(r":\w+}", "}", path)
        within = [
            {"$ref": f"#/components/parameters/{name}"} for name in re.findall(r"{(\w+)}", full)
        ]
        asked = [{"name": name, "in": "query", "schema": kind} for name, kind in query.items()]
        paths[f"{full}.json"] = {
            "get": {
                "operationId": operation,
                "summary": summary,
                "security": [{"pages": []}, {}],
                "parameters": [*within, *asked],
                "responses": {
                    "200": {
                        "description": f"{summary}.",
                        "content": {"application/json": {"schema": answer}},
                    },
                    **{
                        status: {"$ref": f"#/components/responses/{name}"}
                        for status, name in REFUSALS.items()
                    },
                },
            }
        }
    for view in {typing.get_type_hints(build, names)["return"] for build in PAGES.values()}:
        properties = schemas.known[view.__name__]["properties"]
        properties["schema"] = {"const": 1}
    return {"paths": paths, "schemas": dict(sorted(schemas.known.items()))}


def laid_out(value: Any, key: str = "", indent: str = "") -> str:
    """JSON as openapi.json has it: what fits into a line is a line."""
    line = f"{indent}{key}{json.dumps(value)}"
    if len(line) < WIDTH or not isinstance(value, dict | list):
        return line
    inner = f"{indent}  "
    if isinstance(value, list):
        first, parts, last = "[", [laid_out(part, indent=inner) for part in value], "]"
    else:
        pairs = value.items()
        first, parts, last = "{", [laid_out(it, f'"{name}": ', inner) for name, it in pairs], "}"
    return f"{indent}{key}{first}\n" + ",\n".join(parts) + f"\n{indent}{last}"


def test_document_of_pages_matches_their_classes(golden: Golden) -> None:
    golden(laid_out(page_document()) + "\n", PLACE)


@pytest.mark.parametrize("page", ADDRESSES)
def test_each_page_conforms_to_the_document(local: AsgiClient, page: str) -> None:
    document = json.loads(PLACE.read_text("utf-8"))
    for schema in document["schemas"].values():
        schema["additionalProperties"] = False  # a client may meet more, of a newer version
    (path,) = [path for path in PAGES if named(path) == page]
    described = document["paths"][re.sub(r":\w+}", "}", path) + ".json"]["get"]["responses"]["200"]
    schema = {**described["content"]["application/json"]["schema"], "components": document}
    jsonschema.Draft202012Validator(schema).validate(local.get(ADDRESSES[page]).json())


def test_each_page_is_in_the_document() -> None:
    assert {named(path) for path in PAGES} == set(OPERATIONS) == set(ADDRESSES)
    paths = openapi_document("", "1")["paths"]
    operations = [
        operation["operationId"] for path in paths.values() for operation in path.values()
    ]
    assert len(set(operations)) == len(operations)


@pytest.mark.parametrize("page", OPERATIONS)
def test_each_parameter_is_read(local: AsgiClient, page: str) -> None:
    *_, query = OPERATIONS[page]
    free = {"q", "text", "suite", "variant", "shard", "unit", "case", "branch", "workflow", "owner"}
    address = f"{ADDRESSES[page]}{'&' if '?' in ADDRESSES[page] else '?'}"
    for name in query.keys() - free:
        assert local.get(f"{address}{name}=%25").status_code == 400, name
    answer = local.get(ADDRESSES[page]).text
    for name in free & query.keys():
        assert local.get(f"{address}{name}=none").text != answer, name
