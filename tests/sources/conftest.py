"""The fake GitHub of `tests/github`, which these tests read runs from."""

from __future__ import annotations

from github.conftest import _no_proxy, github, server, waits

__all__ = ["_no_proxy", "github", "server", "waits"]
