"""What enters a tested process: the files of `run/inside/`, laid into a private folder.

Only that folder gets onto the process's search path. The zip file that a leg runs from must not:
its `ciguard` would shadow a tested project's own.
"""

from __future__ import annotations

import os
import pkgutil

from ciguard.run import inside


def lay_out(folder: str) -> str:
    """Write the files into `folder`, made where it is missing; give it back.

    Raises:
        OSError: it cannot be written.
    """
    os.makedirs(folder, exist_ok=True)
    for module in pkgutil.iter_modules(inside.__path__):
        content = pkgutil.get_data(inside.__name__, f"{module.name}.py")
        if content is not None:
            with open(os.path.join(folder, f"{module.name}.py"), "wb") as stream:
                stream.write(content)
    return folder
