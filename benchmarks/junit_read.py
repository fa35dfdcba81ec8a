"""Reads JUnit XML; target: >= 200,000 cases/s in < 60 MB whatever the size.

    python benchmarks/junit_read.py [CASES]

The file is written to a temporary place as a run writes it, one case in a hundred failing.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time

from ciguard.codec import junit


def main(cases: int) -> None:
    with tempfile.TemporaryFile() as stream:
        stream.write(b'<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="s">')
        for i in range(cases):
            case = f'classname="tests.unit.test_{i % 997}.TestThing" name="test_{i}[a-b]"'
            inside = '<failure message="assert 1 == 2">trace</failure>' if i % 100 == 0 else ""
            stream.write(f'<testcase {case} time="0.{i % 997}">{inside}</testcase>\n'.encode())
        stream.write(b"</testsuite></testsuites>")
        size = stream.tell()
        stream.seek(0)
        begin = time.perf_counter()
        found = sum(1 for _ in junit.read(stream, "benchmark"))
        took = time.perf_counter() - begin
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{found} cases, {size / 1e6:.0f} MB: {found / took:,.0f} cases/s, {memory_mib:.0f} MiB")


if __name__ == "__main__":
    main(int([*sys.argv[1:], "1000000"][0]))
