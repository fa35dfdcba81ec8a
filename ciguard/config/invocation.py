"""What every command is handed: the environment, and the configuration once it asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.config.file import Config


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call of `ciguard`. `environ` is a copy: nobody changes the process's own."""

    environ: Mapping[str, str]
    folder: Path = Path()

    def config(self) -> Config:
        """The configuration of the current folder; reads the file at each call.

        Raises:
            UsageError: all its mistakes, together.
        """
        # Imported here: pydantic and tomllib cost 0.1 s that --help need not pay.
        from ciguard.config.file import load  # noqa: PLC0415

        return load(self.folder, self.environ)
