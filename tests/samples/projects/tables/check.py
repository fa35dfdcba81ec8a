"""A test suite without a framework: each table of examples is a unit, each of its rows a case.

    check.py list                                  one JSON line a table
    check.py run UNITS_FILE RESULTS_FILE MODE      MODE is exact or rounded
"""

import json
import os
import sys
import time
from pathlib import Path

TABLES = Path(__file__).parent / "tables"


def rows(table):
    for line in (TABLES / table).read_text().splitlines():
        name, text, expected = line.split(";")
        yield name, text, float(expected)


def outcome(text, expected, mode):
    left, right = map(float, text.split("/"))
    try:
        found = left / right
    except ZeroDivisionError:
        return "errored"
    if mode == "rounded":
        found = round(found, 2)
    return "passed" if found == expected else "failed"


def append(results, **line):
    with open(results, "a") as stream:
        stream.write(json.dumps(line) + "\n")


def run(units_file, results, mode):
    bad = False
    for table in Path(units_file).read_text().splitlines():
        append(results, type="start", unit=table)
        if os.environ.get("CRASH_IN") == table:
            os._exit(70)
        for name, text, expected in rows(table):
            start = time.perf_counter()
            found = outcome(text, expected, mode)
            bad = bad or found != "passed"
            wall_s = time.perf_counter() - start
            append(results, type="result", unit=table, case=name, outcome=found, wall_s=wall_s)
        print(f"{table}: done as {os.environ['CIGUARD_VARIANT']}")
    return bad


if __name__ == "__main__":
    if sys.argv[1] == "list":
        for path in sorted(TABLES.glob("*.txt")):
            print(json.dumps({"unit": path.name, "file": f"tables/{path.name}"}))
    else:
        sys.exit(run(*sys.argv[2:5]))
