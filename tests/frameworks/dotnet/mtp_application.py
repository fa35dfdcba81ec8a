"""An application of Microsoft.Testing.Platform that plays recorded frames over its pipe.

`$RECORDING` is a file of streams/mtp, `$RUN` one of its runs. If `$ACCIDENT` is a recorded one and
its test is selected, the program sends the frames before it and ends as the recorded one did. Only
frames of selected tests are sent, each after the answer to the one before. Each test that begins is
appended to `begun` beside `$MARKS`: what has run is known from this file alone.

Without `$RECORDING` it runs the cases of an assembly of `player.py`: `--assembly FILE` comes first.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import re
import socket
import struct
import sys
import time
from pathlib import Path

DISCOVERED, RESULTS, SESSION, RUNNING = 5, 6, 8, 7
DEADLY = "B_Accident"


def values(data: bytes) -> dict[int, bytes]:
    (count,), at = struct.unpack_from("<H", data), 2
    found = {}
    for _ in range(count):
        number, size = struct.unpack_from("<Hi", data, at)
        found[number], at = data[at + 6 : at + 6 + size], at + 6 + size
    return found


def test_of(frame: bytes) -> tuple[str, str, int] | None:
    """Uid, name and state of the test that a frame reports."""
    lists = values(frame[8:]) if frame[4] == RESULTS else {}
    for number in (3, 4):
        if number in lists:
            test = values(lists[number][4:])
            return test[1].decode(), test[2].decode(), test[3][0]
    return None


def selected(words: list[str]) -> list[str] | None:
    """The uids that the words or their @FILE name; None for all."""
    if "--filter" in words:  # of VSTest, with escapes; the name of a method selects all its rows
        terms = re.split(r"(?<!\\)\|", words[words.index("--filter") + 1])
        return [re.sub(r"\\(.)", r"\1", term.partition("=")[2]) for term in terms]
    files = (Path(word[1:]).read_text("utf-8") for word in words if word.startswith("@"))
    return next((re.findall(r'^"(.*)"$', text, re.MULTILINE) for text in files), None)


def exchange(connection: socket.socket, frame: bytes) -> None:
    """Send a frame and wait for its answer; a real application ends with 1 if there is none."""
    connection.sendall(frame)
    if not connection.recv(1 << 16):
        os._exit(1)


def end(code: int) -> None:
    """End as a recorded application did."""
    print(f"the application ends with {code}", flush=True)
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


def body(fields: dict[int, bytes]) -> bytes:
    values = (struct.pack("<Hi", key, len(value)) + value for key, value in fields.items())
    return struct.pack("<H", len(fields)) + b"".join(values)


def frame(kind: int, content: bytes) -> bytes:
    return struct.pack("<ii", len(content) + 4, kind) + content


def named(case: dict[str, str]) -> tuple[bytes, bytes]:
    return case["unit"].encode(), case["case"].encode()


def run_assembly(assembly: str, words: list[str]) -> None:
    cases, uids = json.loads(Path(assembly).read_text("utf-8"))["cases"], selected(words)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(words[words.index("--dotnet-test-pipe") + 1])

    def send(kind: int, *fields: bytes, place: int = 3) -> None:
        content = body({key: value for key, value in enumerate(fields, 1) if value})
        content = body({place: struct.pack("<i", 1) + content}) if kind != SESSION else content
        exchange(connection, frame(kind, content))

    exchange(connection, frame(9, struct.pack("<HBi5s", 1, 4, 5, b"1.0.0")))
    send(SESSION, b"\0")
    for case in cases if "--list-tests" in words else ():
        if "--filter" in words and words[words.index("--filter") + 1][19:] not in case["unit"]:
            continue  # FullyQualifiedName~First
        place = [case["file"].encode(), struct.pack("<i", case["line"])]
        send(DISCOVERED, *named(case), *place, *case["unit"].encode().split(b"."))
    chosen = [case for case in cases if case["unit"] in (uids or ())]
    player, states = importlib.import_module("player"), {"Passed": 1, "Skipped": 2}
    outcomes = set()
    for case, outcome, message in player.executed(
        chosen, lambda case: send(RESULTS, *named(case), bytes([RUNNING]))
    ):
        state, ticks = bytes([states[outcome]]), struct.pack("<q", 10)
        send(RESULTS, *named(case), state, ticks, (message or "").encode())
        outcomes.add(outcome)
    send(SESSION, b"\1")
    os._exit(0 if "Passed" in outcomes or "--list-tests" in words else 8)


def main(words: list[str], act: str) -> None:
    marks = Path(os.environ["MARKS"])
    marks.with_name("arguments").write_text(json.dumps(words), "utf-8")
    if act == "refuses":
        end(5)
    lines = Path(os.environ["RECORDING"]).read_text().splitlines()
    runs = {run["run"]: run for run in map(json.loads, lines)}
    run = runs["list" if "--list-tests" in words else os.environ.get("RUN", "fail")]
    uids = selected(words)
    tests = [test_of(base64.b64decode(frame)) for frame in runs["fail"]["frames"]]
    deadly = next(test[0] for test in tests if test and test[1].endswith(DEADLY))
    is_deadly = act in runs and deadly in (uids or ())
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(words[words.index("--dotnet-test-pipe") + 1])
    states = set()
    for encoded in (runs[act] if is_deadly else run)["frames"]:
        recorded = base64.b64decode(encoded)
        test = test_of(recorded)
        if test and uids is not None and not {test[0], test[0].partition("(")[0]} & {*uids}:
            continue
        if act == "damage" and test:
            recorded = recorded[:8] + b"\xff" * (len(recorded) - 8)
        exchange(connection, recorded)
        states.add(test[2] if test else RUNNING)
        if test and test[2] == RUNNING:
            with marks.with_name("begun").open("a", encoding="utf-8") as file:
                file.write(f"{test[1]}\n")
            held = bytearray(int(os.environ.get("HOLD_MIB", "0")) << 20)
            time.sleep(float(os.environ.get("PAUSE_S", "0")))
            del held
    while act == "hang" and is_deadly:
        time.sleep(1)
    if is_deadly:
        end(runs[act]["exit_code"])
    ran = states - {RUNNING}
    end(run["exit_code"] if uids is None else 8 if not ran else 0 if ran <= {1, 2} else 2)


if __name__ == "__main__":
    if sys.argv[1] == "--assembly":
        run_assembly(sys.argv[2], sys.argv[3:])
    main(sys.argv[1:], os.environ.get("ACCIDENT", ""))
