"""Builds ciguard_junit.jar from its source: the same bytes wherever the compiler is the same."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PLUGINS = Path(__file__).parent.parent.parent / "ciguard" / "run" / "plugins"
JAR = PLUGINS / "ciguard_junit.jar"
SOURCE = PLUGINS / "CiguardListener.java"
CLASS = "ciguard.CiguardListener"
SERVICES = ("PostDiscoveryFilter", "TestExecutionListener")
FIXED_TIME = (1980, 1, 1, 0, 0, 0)
RELEASE = 17  # of the compiler; what it makes runs on Java 8


def build(jar: Path, class_path: str) -> None:
    """Compile the listener into a jar that a ServiceLoader finds it in.

    Args:
        class_path: has the jars of the JUnit Platform.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = ("-nowarn", "--release", "8", "-g:none", "-Xlint:-options", "-encoding", "UTF-8")
        argv = ["javac", *words, "-cp", class_path, "-d", folder, str(SOURCE)]
        subprocess.run(argv, check=True)
        classes = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in Path(folder).rglob("*.class")
        }
    services = {
        f"META-INF/services/org.junit.platform.launcher.{name}": f"{CLASS}\n".encode()
        for name in SERVICES
    }
    with zipfile.ZipFile(jar, "w") as archive:
        for name, content in sorted({**classes, **services}.items()):
            # Stored, as compressed bytes depend on the version of zlib.
            archive.writestr(zipfile.ZipInfo(name, FIXED_TIME), content)


if __name__ == "__main__":
    build(JAR, sys.argv[1])
