"""The table of filter languages by framework. To add one, write its module and its line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.audit.filters import go_test, gtest, jest, pytest_selection, vstest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.audit.filters.base import FilterLanguage

# Keys: frameworks of workflow/test_commands.py.
LANGUAGES: Final[Mapping[str, FilterLanguage]] = {
    "dotnet test": vstest,
    "pytest": pytest_selection,
    "go test": go_test,
    "jest": jest,
    "gtest": gtest,
}
