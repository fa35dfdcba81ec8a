"""A generated file that somebody edited: `ciguard init` recognises it and leaves it alone."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from init.test_workflow_files import CASES, OWN

from ciguard.init.workflow_files import is_generated, is_unedited, rest_of, with_checksum

if TYPE_CHECKING:
    from init.conftest import Init

WORKFLOW = ".github/workflows/ciguard.yml"
FORKS = ".github/workflows/ciguard-forks.yml"
TEXT = "name: tests\non: push\n"
generated = [name for name in CASES if name not in OWN]


def test_first_line_holds_the_sha256_of_the_rest() -> None:
    first, rest = with_checksum(TEXT).split("\n", 1)
    assert rest == TEXT
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    pattern = rf"# ciguard init \S+, sha256 {digest}: change ciguard\.toml and run init again"
    assert re.fullmatch(pattern, first)


@pytest.mark.parametrize("name", generated)
def test_every_generated_workflow_is_recognised(name: str) -> None:
    assert is_unedited(CASES[name])
    assert CASES[name].count("ciguard init") == 1, "the first line alone names the command"


@pytest.mark.parametrize(
    "same",
    [
        with_checksum(TEXT).replace("\n", "\r\n"),
        with_checksum(TEXT).rstrip("\n"),
        with_checksum(TEXT) + "\n",
        re.sub(r"init \S+,", "init 99.1rc2,", with_checksum(TEXT)),
    ],
    ids=["CRLF", "no final newline", "one newline more", "another version"],
)
def test_line_ends_and_version_are_no_edit(same: str) -> None:
    assert is_unedited(same)
    assert rest_of(same) == TEXT


@pytest.mark.parametrize(
    "edited",
    [
        with_checksum(TEXT).replace("push", "pull_request"),
        with_checksum(TEXT).replace("push", "push # mine").replace("\n", "\r\n"),
        with_checksum(TEXT) + "# mine\n",
        with_checksum(TEXT).replace("\n", "\n# mine\n", 1),
    ],
)
def test_changed_text_is_an_edit(edited: str) -> None:
    assert is_generated(edited)
    assert not is_unedited(edited)


@pytest.mark.parametrize("text", ["", "\n", TEXT, f"\n{with_checksum(TEXT)}", "# ciguard init\n"])
def test_text_without_the_line_is_not_generated(text: str) -> None:
    assert not is_generated(text)
    assert not is_unedited(text)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_recognised_after_a_checkout(text: str) -> None:
    written = with_checksum(text)
    assert is_unedited(written)
    assert is_unedited(written.replace("\r\n", "\n").replace("\n", "\r\n"))
    assert rest_of(written) == rest_of(text) or is_generated(text)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(folder)], check=True)
    (folder / "test_one.py").write_text("def test_one(): pass\n", "utf-8")
    return folder


def configure(repository: Path, text: str) -> None:
    (repository / "ciguard.toml").write_text(text, "utf-8")


def replace(path: Path, old: str, new: str) -> str:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    return text.replace(old, new)


def files(repository: Path) -> dict[str, bytes]:
    found = [path for path in repository.rglob("*") if path.is_file()]
    return {path.relative_to(repository).as_posix(): path.read_bytes() for path in found}


@pytest.mark.parametrize("options", [(), ("--yes",)])
def test_edited_workflow_is_not_overwritten(
    repository: Path, call: Init, options: tuple[str, ...]
) -> None:
    call(repository, "--yes")
    edited = replace(repository / WORKFLOW, "permissions: {}\n", "permissions: {} # mine\n")
    configure(repository, "[workflow]\nforks = true\nsetup = ''\n[suite.a]\n")
    answer = call(repository, *options, expect=3)
    assert f"would change {WORKFLOW}:" in answer.stdout
    assert "-permissions: {} # mine\n+permissions: {}\n" in answer.stdout
    assert f"ciguard init: {WORKFLOW}: edited after ciguard init wrote it\n" in answer.stderr
    fix = "fix: --force overwrites it; or move your changes into ciguard.toml"
    assert fix in answer.stderr
    assert (repository / WORKFLOW).read_text("utf-8") == edited
    assert not (repository / FORKS).exists(), "nothing is written, not even another file"
    answer = call(repository, "--force")
    assert answer.stdout == f"{WORKFLOW}: changed\n{FORKS}: created\n"
    assert "# mine" not in (repository / WORKFLOW).read_text("utf-8")


def test_foreign_workflow_is_not_overwritten(repository: Path, call: Init) -> None:
    path = repository / WORKFLOW
    path.parent.mkdir(parents=True)
    path.write_text(TEXT, "utf-8")
    answer = call(repository, "--yes", expect=3)
    assert f"{WORKFLOW}: not written by ciguard init\n" in answer.stderr
    assert not (repository / "ciguard.toml").exists()
    assert path.read_text("utf-8") == TEXT
    call(repository, "--force")
    assert is_unedited(path.read_text("utf-8"))
    assert (repository / "ciguard.toml").exists()


@pytest.mark.parametrize("final", [b"\r\n", b""])
def test_checkout_with_autocrlf_is_up_to_date(repository: Path, call: Init, final: bytes) -> None:
    call(repository, "--yes")
    path = repository / WORKFLOW
    path.write_bytes(path.read_bytes().rstrip(b"\n").replace(b"\n", b"\r\n") + final)
    assert "are up to date" in call(repository, "--yes").stdout
    configure(repository, "[workflow]\nsetup = '- run: make x'\n[suite.a]\n")
    shown = call(repository).stdout
    assert "+      - run: make x" in shown
    assert "-name: tests" not in shown, "line ends are no difference"
    assert call(repository, "--yes").stdout == f"{WORKFLOW}: changed\n"


def test_edit_that_init_would_make_too_is_none(repository: Path, call: Init) -> None:
    """As after a merge of two branches that both ran init: nothing of anybody is lost."""
    call(repository, "--yes")
    path = repository / WORKFLOW
    written = path.read_text("utf-8")
    path.write_text(re.sub("sha256 [0-9a-f]+", "sha256 " + "0" * 64, written), "utf-8")
    assert call(repository, "--yes").stdout == f"{WORKFLOW}: changed\n"
    path.write_text(written.split("\n", 1)[1], "utf-8")
    assert call(repository, "--yes").stdout == f"{WORKFLOW}: changed\n"
    assert path.read_text("utf-8") == written
