"""Go through the whole loop: what passes, fails, dies, hangs and vanishes is accounted for."""

from __future__ import annotations

import pytest
from frameworks.loop import Loop, bad, is_whole

SHOP = "example.org/shop"
ENDS = (f"{SHOP}/ends.TestEnds", "")
TABLE = f"{SHOP}/sums.TestTable"
UNITS = [
    f"{SHOP}/broken.TestBuilt",
    *(f"{SHOP}/ends.Test{name}" for name in ("Before", "Behind", "Ends", "Waits")),
    *(f"{SHOP}/slow.Test{name}" for name in ("One", "Two")),
    f"{SHOP}/sums.Example",
    f"{SHOP}/sums.FuzzAdds",
    *(f"{SHOP}/sums.Test{name}" for name in ("Adds", "Holds", "ParallelA", "ParallelB")),
    *(f"{SHOP}/sums.Test{name}" for name in ("Skipped", "Table")),
]


@pytest.mark.soak
def test_every_case_of_every_test_is_recorded(go: Loop) -> None:
    assert go.planned() == UNITS
    verdict = go.run(WAY="kill", FAIL="1")
    is_whole(verdict, go)
    assert bad(verdict) == {ENDS: "crash", (TABLE, "TestTable/new_line"): "failed"}
    (failure,) = (one for one in verdict["failures"] if one["unit"] == TABLE)
    assert (failure["file"], failure["line"]) == ("sums/sums_test.go", 16)
    assert failure["message"] == "sums_test.go:16: got 4, want 5"
    results = [line for line in go.record_lines() if line.get("type") == "result"]
    cases = {line["case"] for line in results if line["unit"] == TABLE and line.get("case")}
    assert cases == {
        f"TestTable/{name}"
        for name in (
            *("quo\"te_'n/slash", "new_line", "grüße_😀", "#00"),
            *("twice", "twice#01", "a+b_(x)_[y]_.*"),
        )
    }
    assert {line["unit"] for line in results if line["outcome"] == "skipped"} == {
        f"{SHOP}/sums.TestSkipped"
    }


@pytest.mark.soak
def test_test_beside_a_panic_has_passed(go: Loop) -> None:
    (go.folder / "slow" / "slow_test.go").write_text("""package slow
import ("os"; "testing"; "time")
func seen() bool { _, err := os.Stat("seen"); return err == nil }
func TestOne(t *testing.T) {
    t.Parallel()
    if !seen() { os.WriteFile("seen", nil, 0o644); select {} }
}
func TestTwo(t *testing.T) {
    t.Parallel()
    for !seen() { time.Sleep(time.Millisecond) }
    go func() { panic("of the second") }()
    select {}
}
""")
    go.plan()
    verdict = go.run()
    is_whole(verdict, go)
    assert bad(verdict) == {(f"{SHOP}/slow.TestTwo", ""): "crash"}, go.printed
    assert verdict["flaky"] == []


@pytest.mark.soak
def test_goroutine_that_outlives_its_test_is_the_culprit(go: Loop) -> None:
    (go.folder / "slow" / "slow_test.go").write_text("""package slow
import ("os"; "testing"; "time")
func TestOne(t *testing.T) {
    if _, err := os.Stat("seen"); err == nil { return }
    os.WriteFile("seen", nil, 0o644)
    go func() { time.Sleep(100 * time.Millisecond); t.Error("too late") }()
}
func TestTwo(t *testing.T) { time.Sleep(time.Second) }
""")
    go.plan()
    verdict = go.run()
    is_whole(verdict, go)
    assert bad(verdict) == {(f"{SHOP}/slow.TestOne", ""): "crash"}, go.printed
    assert "Fail in goroutine after TestOne has completed" in verdict["failures"][0]["message"]
    assert verdict["flaky"] == []


@pytest.mark.soak
def test_order_of_shuffled_tests_has_a_seed(go: Loop) -> None:
    go.configure(go.toml.replace('"./..."', '"-shuffle", "on", "./..."'))
    assert go.run()["verdict"] == "passed"
    assert go.execution() == {"executed"}
    assert len(go.seeds()) == 2  # one a process, whatever packages it has
    assert all(seed.startswith("-shuffle=1") for seed in go.seeds())


@pytest.mark.soak
def test_what_cannot_be_built_cannot_be_listed(go: Loop) -> None:
    (go.folder / "broken" / "more_test.go").write_text("package broken\n\nvar x = undefined\n")
    with pytest.raises(AssertionError, match="undefined: undefined"):
        go.plan()


@pytest.mark.soak
def test_limit_of_go_itself_is_a_timeout(go: Loop) -> None:
    go.configure(go.toml.replace('"./..."', '"-timeout=2s", "./..."').replace("5s", "60s"))
    verdict = go.run(WAY="hang")
    is_whole(verdict, go)
    assert bad(verdict) == {ENDS: "timeout"}
