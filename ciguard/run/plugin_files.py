"""Lays out what enters a tested process: the files of `run/plugins/`, in a private folder.

Only that folder gets onto the process's search path. The zip file that a leg runs from must not:
its `ciguard` would shadow a tested project's own.
"""

from __future__ import annotations

import os
import pkgutil
from functools import lru_cache
from typing import List, Mapping

from ciguard.run import plugins
from ciguard.run.frameworks.registry import PACKED, is_plugin


def extract_plugins(folder: str) -> str:
    """Write the files into `folder`, made where it is missing; give it back.

    Raises:
        OSError: it cannot be written.
    """
    os.makedirs(folder, exist_ok=True)
    for name, content in _contents().items():
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(content)
    return folder


def restore_plugins(private: str, folder: str) -> None:
    """The same where some of it is gone: a test that empties TMPDIR takes it along.

    Args:
        private: what holds `folder`, for the leg alone.

    Raises:
        OSError: it cannot be written.
    """
    if not all(os.path.exists(os.path.join(folder, name)) for name in _contents()):
        os.makedirs(private, mode=0o700, exist_ok=True)
        extract_plugins(folder)


@lru_cache(maxsize=None)
def _contents() -> Mapping[str, bytes]:
    """By name. Read once: a test can remove the zip file that the leg runs from."""
    return {name: pkgutil.get_data(plugins.__name__, name) or b"" for name in _names()}


def _names() -> List[str]:
    (folder,) = plugins.__path__
    if os.path.isdir(folder):
        return sorted(filter(is_plugin, os.listdir(folder)))
    return (pkgutil.get_data(plugins.__name__, PACKED) or b"").decode("ascii").split()
