"""The fake GitHub itself: it must be able to be wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fakegithub.conformance import mistakes

from ciguard.github.models import Text

if TYPE_CHECKING:
    from fakegithub.state import FakeGitHub

    from ciguard.github.client import GitHub


def test_nonconforming_exchanges_are_detected(server: FakeGitHub, github: GitHub) -> None:
    github.post(Text, "/repos/octo-org/shop/issues/7/comments", {"body": "one"})
    exchange = server.exchanges[0]
    comment = {**exchange.answer.value, "user": {"login": "incomplete"}}
    invalid = [
        replace(exchange, answer=replace(exchange.answer, value=comment)),
        replace(exchange, answer=replace(exchange.answer, status=418)),
        replace(exchange, request=replace(exchange.request, body=b'{"text": "one"}')),
        replace(exchange, request=replace(exchange.request, path="/repos/octo-org/shop/comments")),
    ]
    for one in invalid:
        assert mistakes([one]), one
