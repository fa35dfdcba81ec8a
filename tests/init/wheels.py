"""Small wheels, written without a build."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_wheel(folder: Path, name: str, files: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name.replace('-', '_')}-99-py3-none-any.whl"
    about = path.name.split("-py3")[0] + ".dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in files.items():
            archive.writestr(member, text)
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 99\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(
            f"{about}/entry_points.txt", "[console_scripts]\nciguard = ciguard.__main__:main\n"
        )
        archive.writestr(f"{about}/RECORD", "")
    return path
