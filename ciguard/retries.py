"""Retries by stamina that write nothing to standard error, which is console.py's alone."""

from __future__ import annotations

import logging

from stamina import retry_context

__all__ = ["retry_context"]

# stamina reports each retry by logging; without a handler Python would print it.
logging.getLogger("stamina").addHandler(logging.NullHandler())
