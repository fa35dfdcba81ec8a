"""What a plain tox or nox runs, as its configuration has it."""

from __future__ import annotations

import pytest

from ciguard.errors import InputError
from ciguard.init.tool_environments import Environments, read_environments


def names_of(tool: str, name: str, text: str) -> tuple[str, ...]:
    return read_environments(tool, {name: text}).tests


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("py312, py313", "py312 py313"),
        ("\n    py312 # the oldest\n    # none\n    py313,\n", "py312 py313"),
        ("py{312,313}-{a,b}", "py312-a py312-b py313-a py313-b"),
        ("py{ 312 , 313 }{,-cov}", "py312 py312-cov py313 py313-cov"),
        ("py3{12-14}, {b,a}", "py312 py313 py314 b a"),
        ("a{2-1}, a1", "a2 a1"),
        ("3.12, pypy3.11", "3.12 pypy3.11"),
        ("lint, py312-lint, docs, unit, mypy", "unit"),
    ],
)
def test_list_of_tox_is_expanded(listed: str, expected: str) -> None:
    for key in ("env_list", "envlist"):
        assert names_of("tox", "tox.ini", f"[tox]\n{key} = {listed}\n") == tuple(expected.split())


def test_environments_that_are_no_tests_and_pythons_are_told_apart() -> None:
    found = read_environments(
        "tox", {"tox.ini": "[tox]\nenvlist = py39-x, lint, 3.12, docs, py39\n"}
    )
    assert found == Environments(("py39-x", "3.12", "py39"), ("lint", "docs"), ("3.9", "3.12"))


TOML = 'env_list = ["a", "3.12"]\n'
INI = "[tox]\nenvlist = i\n"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"setup.cfg": INI.replace("tox", "tox:tox")}, "i"),
        ({"setup.cfg": INI, "tox.toml": TOML}, "a 3.12"),
        ({"pyproject.toml": f"[tool.tox]\n{TOML}", "tox.toml": "env_list = []"}, "a 3.12"),
        ({"pyproject.toml": f'[tool.tox]\nlegacy_tox_ini = """\n{INI}"""\n'}, "i"),
        ({"pyproject.toml": "tool = 1\n", "tox.toml": TOML}, "a 3.12"),
        ({"tox.ini": INI, "tox.toml": TOML}, "i"),
        ({"tox.ini": "\ufeff[testenv]\ncommands = pytest\n", "tox.toml": TOML}, "py"),
    ],
)
def test_first_file_that_configures_tox_counts(texts: dict[str, str], expected: str) -> None:
    assert read_environments("tox", texts).tests == tuple(expected.split())


@pytest.mark.parametrize(
    ("name", "text", "where", "what"),
    [
        (
            "tox.ini",
            "\n[tox]\nenv_list = a, {[base]names}\n",
            "x/tox.ini:3",
            "computed: [base]names",
        ),
        ("tox.ini", "[tox]\nenv_list = py3{12-}\n", "x/tox.ini:2", "{12-} depends on the version"),
        ("tox.ini", "[tox]\nenv_list = a{b\n", "x/tox.ini:2", "computed: a{b"),
        ("tox.ini", "[tox]\nenv_list = a{1-999999999}\n", "x/tox.ini:2", "more than 256"),
        ("tox.ini", f"[tox]\nenv_list = {'{a,b}' * 99}\n", "x/tox.ini:2", "more than 256"),
        ("tox.ini", f"[tox]\nenv_list = {'{a,b,c},' * 99}\n", "x/tox.ini:2", "more than 256"),
        ("tox.ini", "[tox]\nenv_list = lint\n", "x/", "no environment of tox runs tests: lint"),
        ("tox.ini", f"{INI}[gh-actions:env]\nOS = a\n", "x/tox.ini", "[gh-actions] chooses"),
        ("tox.ini", "[tox\n", "x/tox.ini", "cannot be read: File contains no section headers."),
        ("tox.toml", f"{TOML}[gh.python]\na = []\n", "x/tox.toml", "[gh] chooses"),
        ("tox.toml", "env_list = [{product = []}]\n", "x/tox.toml:1", "computed"),
        ("tox.toml", "a", "x/tox.toml", "cannot be read: "),
        ("package.json", "", "x/", "no configuration of tox: tox.ini, "),
    ],
)
def test_computed_environments_of_tox_are_refused(
    name: str, text: str, where: str, what: str
) -> None:
    with pytest.raises(InputError) as error:
        read_environments("tox", {name: text}, "x/")
    assert error.value.where == where
    assert what in error.value.what
    assert "tox -e ${{ matrix.tox_env }}" in error.value.fix


def test_sessions_of_nox_are_refused() -> None:
    with pytest.raises(InputError, match="init does not run a noxfile") as error:
        read_environments("nox", {"noxfile.py": ""}, "x/")
    assert error.value.where == "x/noxfile.py"
    assert "nox -s ${{ matrix.nox_session }}" in error.value.fix
