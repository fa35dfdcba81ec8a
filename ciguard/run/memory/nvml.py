"""Program that queries the memory of processes on GPUs, by NVML or by `nvidia-smi`.

A call of the driver may hang or crash, so the leg itself makes none: `gpus.Gpus` sends this file to
a `python -I -S`, so it imports only the standard library. Standard input is a pipe from the leg;
its end means that the leg is gone. Each line of standard output is an answer: a JSON list of [GPU,
pid, bytes]. The program ends with 0 if there is no driver.

Functions and structures of NVML: https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import struct
import sys
import time

assert sys.platform != "win32"

TYPE_CHECKING = False  # typing would take a part of the start time
if TYPE_CHECKING:
    from typing import Callable, List

    Query = Callable[[], List[List[int]]]

LIBRARY = "libnvidia-ml.so.1"
LIBRARY_EVERY_S = 0.5  # a query takes 0.05 ms
PROGRAM = "nvidia-smi"
PROGRAM_EVERY_S = 5.0  # a query takes 0.02-2 s
FORMAT = "--format=csv,noheader,nounits"  # memory is in MiB
GPUS = "--query-gpu=uuid,index"
APPS = "--query-compute-apps=gpu_uuid,pid,used_gpu_memory"
PROCESS_INFO = struct.Struct("@IQII")  # nvmlProcessInfo_v2_t: pid, bytes, ids of MIG instances
SUCCESS = 0
NOT_AVAILABLE = (1 << 64) - 1  # memory that the driver does not know
SPARE = 32  # processes that may start between two calls


def library_query() -> Query:
    """Initialise the library, which takes 10-14 ms, and return its query.

    Raises:
        ImportError, OSError, AttributeError: there is no ctypes, library, driver, GPU or function.
    """
    import ctypes  # noqa: PLC0415  # not every Python has it

    library, count = ctypes.CDLL(LIBRARY), ctypes.c_uint()
    is_failed = library.nvmlInit_v2() or library.nvmlDeviceGetCount_v2(ctypes.byref(count))
    if is_failed or not count.value:
        raise OSError("no driver, or no GPU")
    # Not _v3 first: its structure had another size in the drivers 535.43 to 535.86.
    name = "nvmlDeviceGetComputeRunningProcesses"
    list_processes = getattr(library, f"{name}_v2", None) or getattr(library, f"{name}_v3")

    def query() -> list[list[int]]:
        rows = []
        for index in range(count.value):
            device, number = ctypes.c_void_p(), ctypes.c_uint()
            library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device))
            list_processes(device, ctypes.byref(number), None)  # gives their number
            number.value += SPARE
            content = ctypes.create_string_buffer(number.value * PROCESS_INFO.size)
            if list_processes(device, ctypes.byref(number), content) == SUCCESS:
                written = content.raw[: number.value * PROCESS_INFO.size]
                for pid, size, *_ in PROCESS_INFO.iter_unpack(written):
                    if size != NOT_AVAILABLE:
                        rows.append([index, pid, size])
        return rows

    return query


def program_query() -> Query:
    """Read the GPUs from the program and return its query. Raises OSError without any."""
    import subprocess  # noqa: PLC0415  # NVML does not need it

    def read_rows(query: str) -> list[list[str]]:
        quiet, argv = subprocess.DEVNULL, (PROGRAM, query, FORMAT)
        done = subprocess.run(argv, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, check=False)
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        return [[word.strip() for word in line.split(",")] for line in lines]

    index_of = {row[0]: int(row[1]) for row in read_rows(GPUS) if row[1:] and row[1].isdigit()}
    if not index_of:
        raise OSError("no GPU")

    def query() -> list[list[int]]:
        # Memory that the driver does not know is "[N/A]".
        return [
            [index_of[row[0]], int(row[1]), int(row[2]) << 20]
            for row in read_rows(APPS)
            if row[0] in index_of and [word.isdigit() for word in row[1:]] == [True, True]
        ]

    return query


def end_with_leg() -> None:
    """Kill this process and a running program when the leg is gone, also during a call."""
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Print answers until the leg is gone, or there is nothing to query."""
    _thread.start_new_thread(end_with_leg, ())
    queries = ((library_query, LIBRARY_EVERY_S), (program_query, PROGRAM_EVERY_S))
    for prepare, every_s in queries:
        with contextlib.suppress(ImportError, OSError, AttributeError):
            query = prepare()
            while True:
                os.write(1, f"{query()}\n".encode("ascii"))
                time.sleep(every_s)


if __name__ == "__main__":
    main()
