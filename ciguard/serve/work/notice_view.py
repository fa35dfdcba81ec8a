"""The words of a message to an owner, and its two formats: signed JSON, and Slack's."""

from __future__ import annotations

import json
from typing import Any, Final

from ciguard.serve.state.notices import OTHERS, Notice
from ciguard.text import code, count_of, one_line

SCHEMA: Final = 1
SHOWN: Final = 5  # tests that a text names; JSON has up to 100


def title(notice: Notice) -> str:
    """Return "main of o/r is red: 3 tests of @o/pay failed, since 0a1b2c3d4e (4 commits)"."""
    content = notice.content
    place = f"{content['branch']} of {content['repository']}"
    of_owner = f" of {notice.owner}" if notice.owner != OTHERS else ""
    if notice.event == "recovered":
        return one_line(f"{place} has recovered: the tests{of_owner} passed", 200)
    since = content["since"] or {}
    commits = f" ({count_of(since['commits'], 'commit')})" if since.get("commits") else ""
    range_text = f", since {since['sha'][:10]}{commits}" if since else ""
    count = content["test_count"]
    what = f"{count_of(count, 'test')}{of_owner} failed" if count else content["headline"]
    return one_line(f"{place} is red: {what}{range_text}", 200)


def markdown(notice: Notice) -> str:
    """Return the body of an issue."""
    tests, count = notice.content["tests"], notice.content["test_count"]
    lines = [f"- {code(test)}" for test in tests[:SHOWN]]
    lines += [f"- {count - SHOWN} more"] if count > SHOWN else []
    lines += ["", notice.owner] if notice.owner != OTHERS else []  # a mention, which notifies
    return "\n".join([f"{code(title(notice))}: [run]({notice.content['url']})", "", *lines])


def as_json(notice: Notice) -> bytes:
    """Return the content of a webhook; `id` is the same if it is ever sent again."""
    run = {"run_id": notice.key.run_id, "run_attempt": notice.key.run_attempt}
    name = f"{notice.key.repository_id}/{notice.key.run_id}/{notice.key.run_attempt}/{notice.owner}"
    values = {**notice.content, **run, "workflow": notice.workflow, "title": title(notice)}
    return json.dumps({"schema": SCHEMA, "id": name, **values}).encode()


def as_slack(notice: Notice) -> bytes:
    """Return the content of an incoming webhook of Slack, in which no name is a link or mention."""
    tests = notice.content["tests"]
    lines = [title(notice), *(f"• {one_line(test)}" for test in tests[:SHOWN])]
    text = "\n".join(lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    values: dict[str, Any] = {"text": f"{text}\n<{notice.content['url']}|run>"}
    return json.dumps(values).encode()
