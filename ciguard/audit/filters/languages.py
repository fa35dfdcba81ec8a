"""The filter languages by the framework that reads them. To add one: its module and its line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.audit.filters import go_test, gtest, jest, pytest_selection, vstest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.audit.filters.base import FilterLanguage

# The names of workflow/test_commands.py.
LANGUAGES: Final[Mapping[str, FilterLanguage]] = {
    "dotnet test": vstest,
    "pytest": pytest_selection,
    "go test": go_test,
    "jest": jest,
    "gtest": gtest,
}
