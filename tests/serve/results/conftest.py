"""Results in a folder, listed in SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stored_results import Results, opened_results

from ciguard.serve.objects import FolderStore
from ciguard.serve.state.database import open_database


@pytest.fixture
def results(tmp_path: Path) -> Iterator[Results]:
    database = open_database(f"sqlite:///{tmp_path / 'results.db'}")
    with opened_results(database, FolderStore(tmp_path / "objects"), tmp_path / "cache") as found:
        yield found
    database.close()
