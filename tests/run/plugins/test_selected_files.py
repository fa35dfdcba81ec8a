"""Only the files of the units asked for are imported, under every pytest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from run.leg_runner import plan_of, start_shard

from ciguard.model import Suite

if TYPE_CHECKING:
    from pathlib import Path


def test_only_selected_files_are_imported(tmp_path: Path, foreign_python: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "package").mkdir()
    reports = "import pathlib\npathlib.Path('imported').touch()\n"
    for name, text in (
        ("package/__init__.py", ""),
        ("package/test_a.py", "from package import shared\ndef test_a(): assert shared.X == 1\n"),
        ("package/shared.py", "X = 1\n"),
        ("package/test_b.py", f"{reports}def test_b(): pass\n"),
        ("test_c.py", f"{reports}def test_c(): pass\n"),
        ("test_broken.py", "import no_such_module\n"),
    ):
        (tmp_path / name).write_text(text)
    suite = Suite("pytest", (str(foreign_python), "-m", "pytest", "-p", "no:cacheprovider"))
    plan = plan_of(["package/test_a.py::test_a"], suites={"": suite})
    leg = start_shard(tmp_path, plan).wait(0)
    assert leg.outcomes() == {"package/test_a.py::test_a": "passed"}
    assert not (tmp_path / "imported").exists()
