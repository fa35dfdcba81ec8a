"""Expressions of a workflow that the matrix alone decides: `${{ matrix.a.b }}`. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ciguard.workflow.matrix import texts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

EXPRESSION: Final = re.compile(r"\$\{\{\s*(.*?)\s*\}\}", re.DOTALL)
MATRIX_PATH: Final = re.compile(r"matrix((?:\.[\w-]+|\['[^']+'\])+)")
_PART: Final = re.compile(r"\.([\w-]+)|\['([^']+)'\]")
_JOB_INDEX: Final = "strategy.job-index"


def fill(text: str, values: Mapping[str, Any], job_index: int | None = None) -> str:
    """A text with the values of a combination; other expressions stay.

    Args:
        job_index: position of the combination in the matrix, from 0, as `strategy.job-index`.
    """

    def value_of(found: re.Match[str]) -> str:
        if found[1] == _JOB_INDEX and job_index is not None:
            return str(job_index)
        path = MATRIX_PATH.fullmatch(found[1])
        if path is None:
            return found[0]
        value: Any = values
        for part in _PART.finditer(path[1]):
            value = value.get(part[1] or part[2]) if isinstance(value, dict) else None
        return text_of(value)

    return EXPRESSION.sub(value_of, text)


def fill_constant(value: Any, values: Mapping[str, Any], job_index: int | None = None) -> str:
    """A scalar with its expressions evaluated; "" where the matrix alone does not decide it."""
    text = fill(text_of(value), values, job_index)
    return "" if EXPRESSION.search(text) else text


def text_of(value: Any) -> str:
    """A scalar as GitHub puts it into a text; "" of a list or mapping."""
    return "".join(texts_of(value)) if not isinstance(value, dict | list) else ""
