"""Bytecode made once for all processes of a test run, also where PYTHONDONTWRITEBYTECODE is set."""

from __future__ import annotations

import compileall
import multiprocessing
import os
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

import ciguard

TESTS = Path(__file__).parent
SAMPLES = TESTS / "samples"


def write_bytecode(config: pytest.Config) -> None:
    """Compile the package, the tests' helpers and, with asserts rewritten, the test modules.

    A leg without bytecode starts in 0.40 s of processor time, with it in 0.18 s. Each worker of
    pytest-xdist that has to rewrite all asserts itself spends 17 s of processor time on it.
    """
    paths = [path for path in TESTS.rglob("*.py") if SAMPLES not in path.parents]
    modules = [path for path in paths if path.match("test_*.py") or path.name == "conftest.py"]
    cores = os.cpu_count() or 1
    fork = multiprocessing.get_context("fork")
    shares = [
        fork.Process(target=_rewrite_asserts, args=(config, modules[number::cores]))
        for number in range(cores)
    ]
    for share in shares:
        share.start()
    compileall.compile_dir(Path(ciguard.__file__).parent, quiet=2)
    for helper in {*paths}.difference(modules):
        compileall.compile_file(helper, quiet=2)
    for share in shares:
        share.join()


def _rewrite_asserts(config: pytest.Config, paths: list[Path]) -> None:
    """Do what pytest's import hook does on import, with the functions that it uses itself."""
    state = config.stash[rewrite.assertstate_key]
    for path in paths:
        cache = rewrite.get_cache_dir(path)
        pyc = cache / f"{path.name.removesuffix('.py')}{rewrite.PYC_TAIL}"
        if rewrite._read_pyc(path, pyc) is None:
            cache.mkdir(exist_ok=True)
            source_hash, code = rewrite._rewrite_test(path, config)
            rewrite._write_pyc(state, code, source_hash, pyc)
