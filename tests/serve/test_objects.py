"""Objects in a folder and in S3: put once, whole or not at all."""

from __future__ import annotations

import os
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ciguard.errors import UsageError
from ciguard.serve.objects import (
    PARTIAL,
    PARTIAL_AGE_S,
    AlreadyStored,
    FolderStore,
    NoSuchObject,
    ObjectStore,
    StorageError,
    StorageFull,
    check_conditional_puts,
    open_objects,
)

EITHER_KIND = pytest.mark.parametrize("storage", ["folder", "s3"], indirect=True)


def names(objects: ObjectStore, prefix: str) -> list[str]:
    return sorted(one.name for one in objects.list(prefix))


@EITHER_KIND
def test_objects_are_put_read_listed_and_deleted(objects: ObjectStore) -> None:
    objects.put_new("results/a/one.parquet", b"1" * 3_000_000)
    objects.put_new("results/b/two.parquet", b"")
    objects.put_new("artifacts/three.zip", b"333")
    assert objects.read("results/a/one.parquet") == b"1" * 3_000_000
    assert b"".join(objects.chunks("results/a/one.parquet")) == b"1" * 3_000_000
    assert names(objects, "results/") == ["results/a/one.parquet", "results/b/two.parquet"]
    assert names(objects, "results/a") == ["results/a/one.parquet"]
    assert names(objects, "nothing") == []
    (zipped,) = objects.list("artifacts")
    assert zipped.bytes == 3
    assert abs(zipped.modified_at - time.time()) < 60
    objects.delete(["results/a/one.parquet", "results/b/none.parquet"])
    objects.delete([])
    assert names(objects, "results") == ["results/b/two.parquet"]


@EITHER_KIND
def test_a_name_is_put_once(objects: ObjectStore) -> None:
    objects.put_new("results/a", b"first")
    with pytest.raises(AlreadyStored, match="is stored already"):
        objects.put_new("results/a", b"second")
    assert objects.read("results/a") == b"first"


class OverwritingStore(FolderStore):
    """As a bucket without conditional puts."""

    def put_new(self, name: str, content: bytes | Path) -> None:
        self.delete([name])
        super().put_new(name, content)


@EITHER_KIND
def test_store_without_conditional_puts_is_found(objects: ObjectStore, tmp_path: Path) -> None:
    check_conditional_puts(objects)
    assert names(objects, "probes") == []
    unfit = OverwritingStore(tmp_path / "unfit")
    with pytest.raises(StorageError, match="overwrites objects"):
        check_conditional_puts(unfit)
    assert names(unfit, "probes") == []


@EITHER_KIND
def test_of_writers_at_once_one_wins(objects: ObjectStore) -> None:
    def put(number: int) -> bool:
        try:
            objects.put_new("results/a", b"%d" % number)
        except AlreadyStored:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(put, range(4)))
    assert sum(won) == 1
    assert objects.read("results/a") == b"%d" % won.index(True)


@EITHER_KIND
def test_a_missing_object_is_named(objects: ObjectStore) -> None:
    with pytest.raises(NoSuchObject, match="results/a"):
        objects.read("results/a")
    with pytest.raises(NoSuchObject, match="results/a"):
        list(objects.chunks("results/a"))


@pytest.mark.parametrize("name", ["one", "a/../b", "a/.b", "/a/b", "a//b", "a/b/", "a/b c", ""])
def test_strange_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no name of an object"):
        open_objects(str(tmp_path), {}).put_new(name, b"")


@pytest.mark.parametrize("url", ["s3://", "s3:///prefix", "gs://id:hush@host/x", "s3://id:hush@b"])
def test_another_kind_of_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError, match="expected a folder or s3") as caught:
        open_objects(url, {})
    assert "hush" not in str(caught.value)


def test_a_file_url_is_a_folder(tmp_path: Path) -> None:
    open_objects(f"file://{tmp_path}", {}).put_new("a/b", b"1")
    assert (tmp_path / "a/b").read_bytes() == b"1"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot be made: Not a directory") as caught:
        open_objects(str(tmp_path / "file/folder"), {})
    assert caught.value.where == f"{tmp_path}/file/folder"
    with pytest.raises(StorageError, match="cannot be made: No such file"):
        open_objects("/proc/none", {})


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    objects = FolderStore(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(StorageFull, match="the disk is full"):
            objects.put_new("results/a", b"1" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    objects.put_new("results/a", b"1" * 10_000)


def test_files_of_a_dead_writer_are_deleted_after_a_day(tmp_path: Path) -> None:
    FolderStore(tmp_path)
    old, new = tmp_path / PARTIAL / "old", tmp_path / PARTIAL / "new"
    for path in (old, new):
        path.write_bytes(b"1")
    os.utime(old, (time.time() - PARTIAL_AGE_S - 60,) * 2)
    FolderStore(tmp_path)
    assert not old.exists()
    assert new.exists()


def test_a_missing_bucket_is_named(bucket: tuple[str, dict[str, str]]) -> None:
    objects = open_objects("s3://no-such-bucket/prefix", bucket[1])
    with pytest.raises(StorageError, match=r"s3://no-such-bucket/prefix/a/b: .* no such bucket"):
        objects.put_new("a/b", b"1")


def test_a_store_that_does_not_answer_is_named(bucket: tuple[str, dict[str, str]]) -> None:
    environ = {**bucket[1], "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    objects = open_objects(bucket[0], environ)
    with pytest.raises(StorageError, match=f"{bucket[0]}/a/b: .*") as caught:
        objects.read("a/b")
    assert not caught.value.is_lasting
    assert "test" not in str(caught.value)
    assert "AWS_ACCESS_KEY_ID" in caught.value.fix
