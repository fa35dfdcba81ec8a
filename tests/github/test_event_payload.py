"""The event's payload in its file, which a step can have overwritten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ciguard.errors import InputError
from ciguard.github.event_payload import current_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("content", ["[" * 200_000, "{", "[]"])
def test_what_is_no_payload_is_a_clear_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "event.json"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        current_run({"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(path)})
    assert caught.value.where == f"GITHUB_EVENT_PATH: {path}"
