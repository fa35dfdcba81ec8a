"""What Windows wants spelled its own way: programs and variables. Pure but for a look at files."""

from __future__ import annotations

import os
import shutil
from typing import Dict, List, Mapping, Sequence


def folded(env: Mapping[str, str]) -> Dict[str, str]:
    """Variables by one spelling of their names; of two that differ in case the later one counts.

    Windows takes `Path` and `PATH` for the same, and from a block with both it takes either.
    """
    found: Dict[str, str] = {}
    for name, value in env.items():
        found.pop(name.upper(), None)  # the order of the block is that of the last word
        found[name.upper()] = value
    return found


def place_of(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> List[str]:
    """The command line with its program's whole path, as a shell finds it.

    CreateProcess adds `.exe` alone to a name (not `.cmd`, which npm has), and looks for a relative
    path in our folder, not the process's. What is not found stays as it is: starting it says why.
    """
    program = argv[0]
    sought = os.path.join(cwd, program) if os.path.dirname(program) else program
    return [shutil.which(sought, path=env.get("PATH")) or program, *argv[1:]]
