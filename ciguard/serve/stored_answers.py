"""The answer of a judged run: the JSON of guard, compare and explain, stored as one object.

The pages show it. A run that is judged again gets another object: the row of the run names the
current one.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from ciguard.compare.json import answers_json
from ciguard.compare.json import as_json as comparison_json
from ciguard.errors import InputError
from ciguard.explain.explanation import explain_report
from ciguard.guard.json import as_json as verdict_json
from ciguard.report.view import Report
from ciguard.serve.objects import NoSuchObject
from ciguard.serve.service import Service
from ciguard.serve.state.run_key import RunKey

SCHEMA: Final = 1
DAMAGED: Final = (
    "The verdict of this run cannot be read. Its shards and findings are not shown until "
    "`ciguard serve check --repair` has made it again."
)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The content of the object.

    Attributes:
        verdict: JSON of `ciguard guard`; None if the run could not be judged.
        comparison: JSON of `ciguard compare`; None without a comparison.
        explanation: values of `ciguard explain`; None also of a run that was judged before it.
        runners: values of `RunnerUse`.
    """

    verdict: dict[str, Any] | None
    comparison: dict[str, Any] | None
    explanation: dict[str, Any] | None = None
    runners: tuple[dict[str, Any], ...] = ()


def answer_of(report: Report) -> StoredAnswer:
    """Return the parts of a report that are stored."""
    contents = report.contents
    compared = contents.comparison if contents is not None else None
    answers = answers_json(compared) if compared is not None else {}
    return StoredAnswer(
        verdict_json(contents.verdict, answers) if contents is not None else None,
        comparison_json(compared) if compared is not None else None,
        asdict(explain_report(contents)) if contents is not None else None,
        tuple(map(asdict, contents.runners)) if contents is not None else (),
    )


def encode(answer: StoredAnswer) -> bytes:
    """Encode an answer as JSON in gzip; equal answers give equal bytes."""
    value = {"schema": SCHEMA, **{part.name: getattr(answer, part.name) for part in fields(answer)}}
    return gzip.compress(json.dumps(value).encode("utf-8", "backslashreplace"), mtime=0)


def decode(content: bytes, name: str) -> StoredAnswer:
    """Decode an object.

    Raises:
        InputError: the object is damaged, or of a newer schema.
    """
    try:
        value = json.loads(gzip.decompress(content))
    except (OSError, EOFError, ValueError) as error:
        fix = "run `ciguard serve check --repair`"
        raise InputError(f"damaged: {error}", where=name, fix=fix) from error
    if value.get("schema") != SCHEMA:
        what = f"expected schema {SCHEMA}, found {value.get('schema')}"
        raise InputError(what, where=name, fix="run a newer ciguard")
    later = (value.get("explanation"), value.get("runners", ()))
    return StoredAnswer(value["verdict"], value["comparison"], *later)


def object_name(key: RunKey, content: bytes) -> str:
    """Return the name of the object, with a digest of its content: each answer is stored once."""
    digest = hashlib.sha256(content).hexdigest()[:16]
    return f"answers/{key.repository_id}/{key.run_id}-{key.run_attempt}-{digest}.json.gz"


def read_answer(service: Service, name: str) -> tuple[StoredAnswer | None, str]:
    """Return the answer of a run, or None with the reason why it cannot be read.

    Args:
        name: of the object; "" for a run without an answer, which needs no reason.

    Raises:
        RemoteError: the store cannot be reached.
    """
    if not name:
        return None, ""
    try:
        return decode(service.objects.read(name), name), ""
    except (InputError, NoSuchObject):
        return None, DAMAGED
