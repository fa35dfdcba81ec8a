"""What the tests of `ciguard plan` ask it, and how they read what it says."""

from __future__ import annotations

import json
from typing import Any

from ciguard.codec import plan_file as codec

LISTED = "\n".join(f"tests/test_{file}.py::test_{n}" for file in "abc" for n in range(10))
NONE = ("--history", "none.ciguard")


def plan_of(text: str) -> dict[str, Any]:
    codec.decode(text.encode(), "stdout")
    found: dict[str, Any] = json.loads(text)
    return found


def ids(plan: dict[str, Any]) -> list[str]:
    return [unit["unit"] for shard in plan["shards"] for unit in shard["units"]]
