"""Local copies of objects: bounded, checked, and there while they are in use."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ciguard.serve import object_cache
from ciguard.serve.object_cache import CheckedObject, DamagedObject, ObjectCache
from ciguard.serve.objects import BucketStore, FolderStore, ObjectStore, open_objects

if TYPE_CHECKING:
    Opener = Callable[..., ObjectCache]


def put(objects: ObjectStore, name: str, content: bytes) -> CheckedObject:
    objects.put_new(name, content)
    return CheckedObject(name, hashlib.sha256(content).hexdigest(), len(content))


@pytest.fixture
def s3(bucket: tuple[str, dict[str, str]]) -> ObjectStore:
    return open_objects(*bucket)


class NotedStore(FolderStore):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.read_names: list[str] = []

    def chunks(self, name: str) -> Iterator[bytes]:
        self.read_names.append(name)
        return super().chunks(name)


def copies(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*/*") if path.is_file())


def test_files_have_the_content_of_objects(
    objects: ObjectStore, tmp_path: Path, open_cache: Opener
) -> None:
    cache = open_cache(objects, tmp_path / "cache")
    wanted = [put(objects, f"results/{number}", b"%d" % number) for number in range(3)]
    with cache.open_files([*wanted, wanted[0]]) as files:
        assert {name: path.read_bytes() for name, path in files.items()} == {
            "results/0": b"0",
            "results/1": b"1",
            "results/2": b"2",
        }


def test_no_copy_is_made_of_a_local_file(tmp_path: Path, open_cache: Opener) -> None:
    objects = FolderStore(tmp_path / "objects")
    cache = open_cache(objects, tmp_path / "cache")
    with cache.open_files([put(objects, "results/a", b"1")]) as files:
        assert files == {"results/a": tmp_path / "objects/results/a"}
    assert copies(tmp_path / "cache") == []


def test_a_changed_object_is_named(
    objects: ObjectStore, tmp_path: Path, open_cache: Opener
) -> None:
    wanted = put(objects, "results/a", b"flipped")
    cache = open_cache(objects, tmp_path / "cache")
    changed = CheckedObject(wanted.name, hashlib.sha256(b"other").hexdigest(), wanted.bytes)
    for _ in range(2):
        with (
            pytest.raises(DamagedObject, match="results/a: its SHA-256 is") as caught,
            cache.open_files([changed]),
        ):
            pass
        assert caught.value.name == "results/a"
    assert copies(tmp_path / "cache") == []


def test_a_missing_object_is_damage(
    objects: ObjectStore, tmp_path: Path, open_cache: Opener
) -> None:
    cache = open_cache(objects, tmp_path / "cache")
    with (
        pytest.raises(DamagedObject, match="results/a: the object is missing"),
        cache.open_files([CheckedObject("results/a", "0" * 64, 1)]),
    ):
        pass
    assert copies(tmp_path / "cache") == []


def test_least_recently_used_copies_go_first(
    s3: ObjectStore, tmp_path: Path, open_cache: Opener
) -> None:
    one, two, three = (put(s3, f"a/{number}", b"%d" % number * 10) for number in range(3))
    cache = open_cache(s3, tmp_path, limit_bytes=25)
    for wanted in (one, two, one, three):
        with cache.open_files([wanted]):
            pass
    assert copies(tmp_path) == ["a~0", "a~2"]
    cache.forget(["a/0"])
    assert copies(tmp_path) == ["a~2"]


def test_copies_in_use_stay(s3: ObjectStore, tmp_path: Path, open_cache: Opener) -> None:
    wanted = [put(s3, f"a/{number}", b"%d" % number * 10) for number in range(4)]
    cache = open_cache(s3, tmp_path, limit_bytes=10)
    with cache.open_files(wanted[:3]) as files:
        with cache.open_files([wanted[3]]):
            pass
        assert all(path.exists() for path in files.values())
    assert copies(tmp_path) == ["a~2"]


def test_a_later_process_begins_without_copies(
    s3: ObjectStore, tmp_path: Path, open_cache: Opener
) -> None:
    wanted = put(s3, "a/b", b"good")
    first = open_cache(s3, tmp_path)
    with first.open_files([wanted]) as files:
        files["a/b"].write_bytes(b"dab")
    first.close()
    later = open_cache(s3, tmp_path)
    assert copies(tmp_path) == []
    with later.open_files([wanted]) as files:
        assert files["a/b"].read_bytes() == b"good"


def test_processes_share_no_folder(s3: ObjectStore, tmp_path: Path, open_cache: Opener) -> None:
    wanted = put(s3, "a/b", b"1")
    with (
        open_cache(s3, tmp_path).open_files([wanted]) as ones,
        open_cache(s3, tmp_path).open_files([wanted]) as others,
    ):
        assert ones != others


def test_threads_fetch_an_object_once(
    bucket: tuple[str, dict[str, str]], tmp_path: Path, open_cache: Opener
) -> None:
    class CountingStore(BucketStore):
        fetched = 0

        def chunks(self, name):  # type: ignore[no-untyped-def]  # as the store's
            self.fetched += 1
            return super().chunks(name)

    name, _, prefix = bucket[0].removeprefix("s3://").partition("/")
    objects = CountingStore(name, prefix, bucket[1])
    wanted = put(objects, "a/b", b"1" * 100)
    cache = open_cache(objects, tmp_path)

    def read(_: int) -> bytes:
        with cache.open_files([wanted]) as files:
            return files["a/b"].read_bytes()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(read, range(16))) == {b"1" * 100}
    assert objects.fetched == 1


def test_a_process_remembers_no_more_than_so_many(
    tmp_path: Path, open_cache: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_cache, "MAX_OBJECTS", 2)
    objects = NotedStore(tmp_path / "objects")
    cache = open_cache(objects, tmp_path / "cache")
    wanted = [put(objects, f"a/{number}", b"1") for number in range(3)]
    with cache.open_files(wanted):
        pass
    objects.read_names.clear()
    for number in (2, 1, 0):
        with cache.open_files([wanted[number]]):
            pass
    assert objects.read_names == ["a/0"]


def test_file_that_is_written_to_is_compared_again(tmp_path: Path, open_cache: Opener) -> None:
    objects = FolderStore(tmp_path / "objects")
    cache = open_cache(objects, tmp_path / "cache")
    wanted = put(objects, "a/1", b"1" * 100)
    with cache.open_files([wanted]):
        pass
    path = Path(tmp_path / "objects/a/1")
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # a kernel may count in steps of 4 ms
        path.write_bytes(b"1" * 99 + b"2")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(DamagedObject), cache.open_files([wanted]):
        pass
