"""Files of `run/plugins/`, extracted into a private folder for tested processes.

Only this folder is on the process's search path: the zip file that a leg runs from would shadow a
tested project's own `ciguard`.
"""

from __future__ import annotations

import os
import pkgutil
from functools import lru_cache
from typing import Mapping

from ciguard.run import plugins
from ciguard.run.frameworks.registry import PACKED, is_plugin


def extract_plugins(folder: str) -> str:
    """Write the files unless all exist; return the folder. A test that empties TMPDIR removes it.

    Raises:
        OSError: the folder cannot be written.
    """
    contents = _contents()
    if not all(os.path.exists(os.path.join(folder, name)) for name in contents):
        os.makedirs(os.path.dirname(folder) or ".", mode=0o700, exist_ok=True)
        os.makedirs(folder, exist_ok=True)
        for name, content in contents.items():
            with open(os.path.join(folder, name), "wb") as stream:
                stream.write(content)
    return folder


@lru_cache(maxsize=None)
def _contents() -> Mapping[str, bytes]:
    """Return the files by name. Read once: a test can remove the zip file of the leg."""
    return {name: pkgutil.get_data(plugins.__name__, name) or b"" for name in _names()}


def _names() -> list[str]:
    (folder,) = plugins.__path__
    if os.path.isdir(folder):
        return sorted(filter(is_plugin, os.listdir(folder)))
    return (pkgutil.get_data(plugins.__name__, PACKED) or b"").decode("ascii").split()
