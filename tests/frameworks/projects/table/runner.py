"""A program for `framework = "command"`: `runner.py list`, or it runs the units of a file."""

import importlib
import json
import os
import sys
from pathlib import Path
from unittest import SkipTest


def run(name: str, case: str) -> dict[str, object]:
    """Execute a test, a second time where it fails; what its result line says."""
    body = getattr(importlib.import_module(name), case)
    try:
        body()
    except SkipTest:
        return {"outcome": "skipped"}
    except ValueError:
        body()
        return {"outcome": "passed", "reruns": 1}
    return {"outcome": "passed"}


def main() -> None:
    """Run what the file of units names."""
    files = [path for path in sorted(Path().glob("*.py")) if path.stem not in ("acting", "runner")]
    if sys.argv[1:] == ["list"]:
        for path in files:
            for part in path.read_text().split("def ")[1:]:
                print(json.dumps({"unit": f"{path.stem}/{part.partition('(')[0]}"}))
        return
    units = Path(os.environ["CIGUARD_UNITS_FILE"]).read_text().splitlines()
    with Path(os.environ["CIGUARD_RECORD_FILE"]).open("a", buffering=1) as record:
        for unit in units:
            name, _, case = unit.rpartition("/")
            if os.environ.get("ONLY", unit) != unit or os.environ.get("DRY"):
                continue
            module = importlib.import_module(name)
            if hasattr(module, "hook"):
                module.hook()
            print(json.dumps({"type": "start", "unit": unit}), file=record)
            line = {"type": "result", "unit": unit, **run(name, case)}
            print(json.dumps(line), file=record)


if __name__ == "__main__":
    main()
