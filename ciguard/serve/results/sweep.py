"""Deletes objects that are no results: those of killed writers, and those that were replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.serve.results import manifest

if TYPE_CHECKING:
    from ciguard.serve.object_cache import ObjectCache
    from ciguard.serve.objects import ObjectStore
    from ciguard.serve.state.database import Database

MIN_AGE_S: Final = 3600.0  # whoever puts a file lists it within a third of it


def sweep(database: Database, objects: ObjectStore, cache: ObjectCache, now_s: float) -> int:
    """Delete objects under results/ that are not listed and were put an hour ago; count them.

    Args:
        now_s: seconds since 1970, by the database's clock, as `writer.check_age` has it.
    """
    # The listing comes first: a file that is listed after it was not an hour old.
    old = {one.name for one in objects.list("results/") if now_s - one.modified_at > MIN_AGE_S}
    with database.read() as connection:
        old -= manifest.all_names(connection)
    objects.delete(sorted(old))
    cache.forget(old)
    return len(old)
