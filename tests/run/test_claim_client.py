"""What a leg says to a service, and what it makes of answers, late ones and wrong ones."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest
from run.claim_service import ClaimService, Fault, claim_service
from run.leg_runner import until

from ciguard.run import claim_client
from ciguard.run.claim_client import ClaimAnswer, ClaimClient, ClaimingLeg
from ciguard.run.policy.actions import Claim, Reason

TOKEN = "cgr_0123456789"


def client_of(address: str, **environ: str) -> ClaimClient:
    run = f"{address}/api/v1/repos/o/r/runs/7/1"
    leg = ClaimingLeg(run, "0123456789ab", "01", {"01.1", "01.2"}, {"02.1"}, {"02", "03"})
    environ = environ or {"CIGUARD_CLAIMS_TOKEN": TOKEN}
    return ClaimClient(leg, environ, origin_s=time.monotonic() - 5)


def answer_of(client: ClaimClient, ready_s: float = 0.0) -> ClaimAnswer:
    client.ask(Claim(Reason("next_block"), ready_s))
    return next_answer(client)


def next_answer(client: ClaimClient) -> ClaimAnswer:
    found: list[ClaimAnswer] = []

    def is_answered() -> bool:
        found.extend(filter(None, [client.poll()]))
        return bool(found)

    until(is_answered, what="an answer", timeout_s=40.0)
    assert client.poll() is None
    return found[0]


def fails(service: ClaimService, fault: Fault, patience_s: float) -> ClaimAnswer:
    """The answer to a question, in no more than the patience; what is given back is the detail."""
    service.fault = fault
    begin_s = time.monotonic()
    found = answer_of(client_of(service.address))
    assert time.monotonic() - begin_s < patience_s + 1.0
    return found


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds are enough for a service, and not for a machine that runs all tests at once."""
    monkeypatch.setattr(claim_client, "PATIENCE_S", 30.0)


@pytest.mark.usefixtures("patient")
def test_an_answer_is_a_block_and_who_has_others() -> None:
    with claim_service("01.1", taken={"01.2": "03"}, held=["02.1"]) as service:
        client = client_of(service.address)
        client.begin()
        until(lambda: service.requests, what="it has begun")
        assert answer_of(client, 1.5) == ClaimAnswer("01.1", {"01.2": "03"}, ("02.1",))
        (_, _, begins, token), (method, path, asks, _) = service.requests
        assert token == TOKEN
        assert (method, path) == ("POST", "claims")
        assert (begins["plan"], begins["leg"], begins["state"]) == ("0123456789ab", "01", "begins")
        assert 5.0 <= begins["elapsed_s"] <= asks["elapsed_s"] < 60.0
        assert asks["ready_in_s"] == 1.5
        until(client.poll_greeting, what="the answer to its beginning")
        client.confirm("01.1")
        until(lambda: service.confirmed() == ["01.1"], what="it is confirmed")


@pytest.mark.usefixtures("patient")
def test_a_block_that_was_not_confirmed_in_time_is_not_given_twice() -> None:
    with claim_service("01.1", "01.2") as service:
        client = client_of(service.address)
        assert answer_of(client).block == "01.1"
        assert answer_of(client).block == "01.2"
        assert service.confirmed() == ["01.1"]


@pytest.mark.parametrize(
    ("fault", "problem", "detail"),
    [
        ("garbage", "refused", "an answer that is no JSON"),
        ("redirect", "refused", "HTTP 302"),
        ("large", "refused", "an answer of more than 65536 bytes"),
        ("error", "no_answer", "HTTP 500"),
        ("hang_up", "no_answer", "RemoteDisconnected"),
        ("cut", "no_answer", "an answer that was cut"),
        ("slow", "no_answer", None),
        ("trickle", "no_answer", None),
    ],
)
def test_faults(
    fault: Fault, problem: str, detail: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = detail is None
    patience_s = 30.0 if problem == "refused" else 0.5
    monkeypatch.setattr(claim_client, "PATIENCE_S", patience_s)
    with claim_service("01.1") as service:
        found = fails(service, fault, patience_s)
        assert (found.block, found.problem) == (None, problem)
        assert late or found.detail == detail
        assert not any("elsewhere" in path for _, path, _, _ in service.requests)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    "values",
    [
        {"taken": {"02.1": "03"}},
        {"taken": {"99.1": "02"}},
        {"taken": {"01.1": "01"}},
        {"taken": {"01.1": "99"}},
        {"taken": {"01.1": None}},
        {"taken": ["01.1"]},
        {"held": ["01.1"]},
        {"held": [1]},
    ],
    ids=str,
)
def test_blocks_that_it_cannot_be_told_of_are_refused(values: dict[str, Any]) -> None:
    with claim_service(**values) as service:
        found = answer_of(client_of(service.address))
        assert found.problem == "refused"
        assert found.detail == "an answer with blocks that are not in the plan"


@pytest.mark.usefixtures("patient")
def test_a_short_outage_is_waited_for() -> None:
    with claim_service("01.1", fault="error") as service:
        client = client_of(service.address)
        client.ask(Claim(Reason("next_block")))
        until(lambda: service.states().count("fault asks") >= 2, what="it asks again")
        service.fault = ""
        assert next_answer(client).block == "01.1"


def test_no_service_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_client, "PATIENCE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    found = answer_of(client_of(address))
    assert (found.problem, found.detail) == ("no_answer", "ConnectionRefusedError")


def test_that_it_goes_on_alone_is_repeated_until_it_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claim_client, "REPEAT_S", 0.1)
    with claim_service(fault="hang_up") as service:
        client = client_of(service.address)
        client.begin()
        client.go_alone()
        until(lambda: "fault alone" in service.states(), what="it was said")
        service.fault = ""
        until(lambda: "alone" in service.states(), what="it was heard")
        client.confirm("01.1")  # after which nothing is repeated
        until(service.confirmed, what="the next message")
        assert service.states().count("alone") == 1
