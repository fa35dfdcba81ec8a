"""The argument of every command: environment, folder, and the configuration on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ciguard.config.file import Config


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call of `ciguard`. `environ` is a copy of the process's environment, never changed."""

    environ: Mapping[str, str]
    folder: Path = Path()

    def config(self) -> Config:
        """Read the configuration of the current folder, at each call.

        Raises:
            UsageError: with all mistakes of the configuration.
        """
        # Imported here: pydantic and tomllib cost 0.1 s, which --help does not need.
        from ciguard.config.file import load  # noqa: PLC0415

        return load(self.folder, self.environ)
