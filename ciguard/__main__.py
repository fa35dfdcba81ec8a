"""`python -m ciguard`."""

from __future__ import annotations

from ciguard.cli import main

main()
