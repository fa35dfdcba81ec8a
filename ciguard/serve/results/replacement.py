"""Replaces the rows of a run that was judged again with other evidence.

Files never change, so the files that hold them are rewritten without them, and a new one is listed
in the same transaction: whoever asks sees the rows of one verdict, and each once.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ciguard.serve.results import manifest
from ciguard.serve.results.manifest import FilesReplaced, RunRows
from ciguard.serve.results.parquet_columns import KINDS
from ciguard.serve.results.writer import check_age
from ciguard.serve.state.database import read_clock_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection

    from ciguard.serve.results.compaction import Compactor
    from ciguard.serve.results.rows import RunResults
    from ciguard.serve.results.writer import ResultsWriter
    from ciguard.serve.state.database import Database


def replace_other_rows(
    database: Database,
    compactor: Compactor,
    writer: ResultsWriter,
    run: RunResults,
    confirm: Callable[[Connection], None],
) -> None:
    """Leave a run no other rows than these; without rows, or with pruned ones, it stays so.

    Args:
        confirm: is called in the transaction; what it raises leaves the rows as they were.

    Raises:
        DamagedObject: a file with the other rows cannot be read; `verify.forget` takes it out.
        StorageError, RemoteError: the store or the database cannot be reached.
    """
    is_replaced = False
    while not is_replaced:
        with suppress(FilesReplaced):  # by a compaction: look again
            _replace(database, compactor, writer, run, confirm)
            is_replaced = True


def _replace(
    database: Database,
    compactor: Compactor,
    writer: ResultsWriter,
    run: RunResults,
    confirm: Callable[[Connection], None],
) -> None:
    with database.read() as connection:
        if not (run.rows and manifest.has_other_rows(connection, run.key, run.digest)):
            return
        sources = manifest.files_of_run(connection, run.key, KINDS)
        began_ms = read_clock_ms(connection)
    added = writer.put([run])

    def add(connection: Connection) -> None:
        confirm(connection)
        check_age(connection, began_ms)
        manifest.add_arrival(connection, added, {run.key: RunRows(len(run.rows), run.digest)})

    compactor.rewrite(sources, without_run=run.key, also=add)
