"""The files of one question, open and checked, and how DuckDB is asked of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ciguard.serve.results import queries
from ciguard.serve.results.duckdb_engine import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import duckdb

    from ciguard.serve.results.manifest import ManifestFile
    from ciguard.serve.results.parquet_columns import Kind


class OpenFiles:
    """Files that stay as long as the question takes."""

    def __init__(
        self, engine: duckdb.DuckDBPyConnection, files: Iterable[tuple[ManifestFile, Path]]
    ) -> None:
        self._engine = engine
        self._paths: dict[Kind, list[str]] = {}
        for one, path in files:
            self._paths.setdefault(one.kind, []).append(str(path))

    def fetch(self, query: str, values: Mapping[str, Any], kind: Kind) -> Sequence[tuple[Any, ...]]:
        """Rows of the pairs' files of a kind and of the arrivals; none where there are no files."""
        # The first file says which columns there are, and arrivals have the most.
        paths = [*self._paths.get(kind, ()), *self._paths.get("arrival", ())]
        if not paths:
            return ()
        with_files = query.replace("{files}", "read_parquet($files)")
        return fetch(self._engine, with_files, {**values, "files": paths})

    def fetch_sums(self, by: str, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
        """Sums of tests, out of the sums by day and of arrivals."""
        by_day, arrivals = self._paths.get("by_day"), self._paths.get("arrival")
        if not by_day and not arrivals:
            return ()
        query = queries.select_offenders(by, by_day=bool(by_day), arrivals=bool(arrivals))
        query = query.replace("{by_day}", "read_parquet($by_day)")
        query = query.replace("{arrivals}", "read_parquet($arrivals)")
        known = {**values, "by_day": by_day, "arrivals": arrivals}
        bound = {name: value for name, value in known.items() if f"${name}" in query}
        return fetch(self._engine, query, bound)

    def texts(self, repository_id: int, keys: Iterable[int | None]) -> dict[int, str]:
        """The texts of messages by their keys."""
        wanted = sorted({key for key in keys if key is not None})
        values = {"repository_id": repository_id, "messages": wanted}
        return dict(self.fetch(queries.MESSAGES, values, "messages")) if wanted else {}
