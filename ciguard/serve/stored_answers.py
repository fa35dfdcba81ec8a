"""What a judged run came to, as one immutable object: the JSON of guard and compare.

Pages show it, and a re-judged run gets another one: the row of the run names the one that holds.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ciguard.compare.json import as_json as comparison_json
from ciguard.errors import InputError
from ciguard.guard.json import as_json as verdict_json

if TYPE_CHECKING:
    from ciguard.report.view import Report
    from ciguard.serve.state.run_key import RunKey

SCHEMA: Final = 1


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """What an object of a run says.

    Attributes:
        headlines: sentences of guard and comparison.
        verdict: as `ciguard guard --format json`; None where the run could not be judged.
        comparison: as `ciguard compare --format json`; None without one.
    """

    headlines: tuple[str, ...]
    verdict: dict[str, Any] | None
    comparison: dict[str, Any] | None


def answer_of(report: Report) -> StoredAnswer:
    """What there is to keep of a report."""
    contents = report.contents
    compared = contents.comparison if contents is not None else None
    return StoredAnswer(
        report.headlines,
        verdict_json(contents.verdict) if contents is not None else None,
        comparison_json(compared) if compared is not None else None,
    )


def encode(answer: StoredAnswer) -> bytes:
    """JSON in gzip; equal answers are equal bytes."""
    value = {
        "schema": SCHEMA,
        "headlines": list(answer.headlines),
        "verdict": answer.verdict,
        "comparison": answer.comparison,
    }
    return gzip.compress(json.dumps(value).encode("utf-8", "backslashreplace"), mtime=0)


def decode(content: bytes, name: str) -> StoredAnswer:
    """Read an object.

    Raises:
        InputError: it is damaged, or of a newer schema.
    """
    try:
        value = json.loads(gzip.decompress(content))
    except (OSError, EOFError, ValueError) as error:
        fix = "run `ciguard serve check --repair`"
        raise InputError(f"damaged: {error}", where=name, fix=fix) from error
    if value.get("schema") != SCHEMA:
        what = f"expected schema {SCHEMA}, found {value.get('schema')}"
        raise InputError(what, where=name, fix="run a newer ciguard")
    return StoredAnswer(tuple(value["headlines"]), value["verdict"], value["comparison"])


def object_name(key: RunKey, content: bytes) -> str:
    """The name of the object, by its content: the same answer is stored once."""
    digest = hashlib.sha256(content).hexdigest()[:16]
    return f"answers/{key.repository_id}/{key.run_id}-{key.run_attempt}-{digest}.json.gz"
