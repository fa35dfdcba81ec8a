"""Packs all that tests/real/dotnet.py needs into a folder, for a machine without this checkout.

.venv/bin/python tests/real/dotnet_kit.py .dotnet-kit
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
LARGEST_BYTES = 1_000_000
COMMAND = 'command = ["dotnet", "test"]'  # dotnet.py puts each suite's own in its place


def pack(folder: Path, framework: str = "dotnet", command: str = COMMAND) -> int:
    """Fill a new folder; return the size of its files in bytes.

    The plan has one job that lists the tests itself, and a failed test is not executed again.
    """
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        suite = Path(name)
        text = f'[suite.tests]\nframework = "{framework}"\n{command}\n[policy]\nprobe = false\n'
        (suite / "ciguard.toml").write_text(text)
        (suite / "matrix.json").touch()
        subprocess.run(["git", "init", "-q"], cwd=suite, check=True)
        words = ("--collect", "history", "--matrix", "matrix.json", "--shards", "1")
        argv = [sys.executable, "-m", "ciguard", "plan", *words, "--artifact", "kit"]
        subprocess.run(argv, cwd=suite, check=True, capture_output=True)
        shutil.copytree(suite / "kit", folder)
    shutil.copy(HERE / "dotnet.py", folder)
    shutil.copytree(HERE / "dotnet_projects", folder / "dotnet_projects")
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    size = pack(Path(sys.argv[1]))
    print(f"{sys.argv[1]}: {size} bytes, at most {LARGEST_BYTES}")
    sys.exit(size > LARGEST_BYTES)
