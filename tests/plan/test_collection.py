from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import clean_environment

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import InputError
from ciguard.model import Suite, Variant
from ciguard.plan.collection import collect_units, matching_files, reject_multiline_ids
from ciguard.run.frameworks.registry import DEFAULT, framework

PYTHON = (sys.executable, "-m", DEFAULT)


def write(folder: Path, **texts: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text, "utf-8")


def test_units_are_in_collection_order_with_their_files(tmp_path: Path) -> None:
    write(tmp_path / "sub", test_b="def test_2(): pass\ndef test_1(): pass\n")
    suite = Suite(DEFAULT, PYTHON, cwd="sub", variants={"": Variant()})
    listing = collect_units(framework(DEFAULT), suite, "", tmp_path, clean_environment())
    assert listing.errors == ()
    assert [unit.unit for unit in listing.units] == ["test_b.py::test_2", "test_b.py::test_1"]
    assert {unit.file for unit in listing.units} == {"sub/test_b.py"}


def test_failed_listing_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, test_a="import nowhere\n", test_b="def test(): pass\n")
    suite = Suite(DEFAULT, PYTHON, variants={"": Variant()})
    listing = collect_units(framework(DEFAULT), suite, "", tmp_path, clean_environment())
    assert any("nowhere" in error for error in listing.errors)


def test_path_with_the_separator_of_ids_is_an_error(tmp_path: Path) -> None:
    """Planned, such a test is in no file that a leg knows: "not found"."""
    write(tmp_path / "a::b", test_a="def test(): pass\ndef test_2(): pass\n")
    write(tmp_path, test_b="class TestA:\n    def test(self): pass\n")
    listing = collect_units(
        framework(DEFAULT), Suite(DEFAULT, PYTHON), "", tmp_path, clean_environment()
    )
    assert listing.errors == (
        "a::b/test_a.py: its path contains `::`, which ends the file in a test id: rename it",
    )


def test_stderr_of_a_failed_listing_is_reported(tmp_path: Path) -> None:
    program = "import sys; print('a'); print('it broke', file=sys.stderr); sys.exit(3)"
    suite = Suite("command", ("x",), list_command=(sys.executable, "-c", program))
    listing = collect_units(framework("command"), suite, "", tmp_path, clean_environment())
    assert "exit code 3" in listing.errors[0]
    assert listing.errors[-1] == "it said on stderr:\nit broke"


def test_listing_uses_the_environment_of_a_leg(tmp_path: Path) -> None:
    program = "import os; print(os.environ['A'] + os.environ['B'] + os.getcwd()[-3:])"
    suite = Suite(
        "command",
        ("x",),
        cwd="sub",
        env={"A": "a", "B": "lost"},
        variants={"v": Variant(env={"B": "b"})},
        list_command=(sys.executable, "-c", program),
    )
    (tmp_path / "sub").mkdir()
    environ = clean_environment(A="lost")
    listing = collect_units(framework("command"), suite, "v", tmp_path, environ)
    assert [unit.unit for unit in listing.units] == ["absub"]


@pytest.mark.parametrize(
    ("suite", "output"),
    [
        (Suite("command", ("x",)), "needs a command that lists"),
        (Suite("command", ("x",), list_command=("no-such-program",)), "cannot be started"),
        (Suite("command", ("x",), cwd="no", list_command=("true",)), "cannot be started"),
    ],
)
def test_list_command_that_cannot_start_is_an_error(
    suite: Suite, output: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=output):
        collect_units(framework("command"), suite, "", tmp_path, clean_environment())


def test_collection_skips_hidden_and_vendored_folders(tmp_path: Path) -> None:
    for place in ("", "a/b", ".git", ".venv/lib", "node_modules/x", "env/lib", "__pycache__"):
        write(tmp_path / "p" / place, test_x="", helper="", x_test="")
    (tmp_path / "p" / "env" / "pyvenv.cfg").touch()
    assert matching_files(("test_*.py",), tmp_path, "p") == ("p/a/b/test_x.py", "p/test_x.py")
    assert matching_files(("a/*.py",), tmp_path, "./p") == (
        "p/a/b/helper.py",
        "p/a/b/test_x.py",
        "p/a/b/x_test.py",
    )
    assert matching_files((), tmp_path, "p") == ()
    assert matching_files(("*",), tmp_path / "p" / "a", ".")[0] == "b/helper.py"


def test_listing_has_no_token_in_its_environment(tmp_path: Path) -> None:
    write(
        tmp_path, test_a="import os\nassert 'token' not in os.environ.values()\ndef test(): pass\n"
    )
    names = (
        *("GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"),
        *("CIGUARD_CLAIMS_TOKEN", "CIGUARD_HISTORY_TOKEN"),
    )
    environ = clean_environment(**dict.fromkeys(names, "token"))
    listing = collect_units(framework(DEFAULT), Suite(DEFAULT, PYTHON), "", tmp_path, environ)
    assert listing.errors == ()
    assert [unit.unit for unit in listing.units] == ["test_a.py::test"]


def test_multiline_id_is_rejected_for_line_based_frameworks() -> None:
    suites = {name: Suite(name, ("x",)) for name in ("command", DEFAULT)}
    reject_multiline_ids([InventoryUnit("a\nb", DEFAULT)], suites, "units.json")
    with pytest.raises(InputError, match=r"units.json: the id a\\nb has a line feed"):
        reject_multiline_ids([InventoryUnit("a\nb", "command")], suites, "units.json")


def test_collection_does_not_change_coverage_data(tmp_path: Path) -> None:
    """pytest-cov in the project's own options erases the data of the last real run."""
    write(tmp_path, test_a="def test(): pass\n")
    (tmp_path / f"{DEFAULT}.ini").write_text(
        f"[{DEFAULT}]\naddopts = --cov=. --cov-report=xml --cov-fail-under=90\n", "utf-8"
    )
    (tmp_path / ".coverage").write_bytes(b"of the last run")
    before = sorted(path.name for path in tmp_path.iterdir())
    suite = Suite(DEFAULT, PYTHON, variants={"": Variant()})
    listing = collect_units(framework(DEFAULT), suite, "", tmp_path, clean_environment())
    assert (listing.errors, len(listing.units)) == ((), 1)
    assert (tmp_path / ".coverage").read_bytes() == b"of the last run"
    after = sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__")
    assert [name for name in after if "cache" not in name] == before
