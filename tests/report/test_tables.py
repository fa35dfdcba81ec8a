"""Tables of a page: the first rows as they are, all others where scripts run."""

from __future__ import annotations

import html as entities
import json
import re
from pathlib import Path

import pytest
from compare.compare_factories import case, run_of
from report.browser import dumped, needs_browser

from ciguard.compare.command import FORMATS
from ciguard.compare.compare_runs import compare_run
from ciguard.render.formats import HTML_ROWS

TESTS = 1_200
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
# What a person does, and what the table shows then. The page's policy is taken out for this text.
PERSON = """<script>
const box = document.querySelector(".controls");
const table = box.nextElementSibling.querySelector("table"), body = table.tBodies[0];
const seen = () => [
  box.querySelector("span").textContent, body.rows.length, body.rows[0].cells[0].textContent,
  ...Array.from(box.querySelectorAll("button")).map((button) => button.disabled)];
const search = (words) => {
  const input = box.querySelector("input");
  input.value = words;
  input.dispatchEvent(new Event("input"));
  return seen();
};
const click = (button) => { button.click(); return seen(); };
const [earlier, more] = box.querySelectorAll("button");
const head = table.tHead.querySelectorAll("button")[0];
const told = {
  start: seen(), second: click(more), third: click(more), back: click(earlier),
  up: click(head), down: click(head),
  one: search("t.py::test_0777"), message: search("<b>1199 & 'x'"), all: search(""),
  titles: Array.from(body.rows[0].cells, (cell) => cell.dataset.title)};
document.body.innerHTML = "<pre></pre>";
document.querySelector("pre").textContent = JSON.stringify(told);
</script></body>"""
# Rows, as said and counted; the first test; whether one may not go back, or on.
EXPECTED_TABLE_STATES = {
    "start": ["1 to 500 of 1,200 rows", 500, "t.py::test_0000", True, False],
    "second": ["501 to 1,000 of 1,200 rows", 500, "t.py::test_0500", False, False],
    "third": ["1,001 to 1,200 of 1,200 rows", 200, "t.py::test_1000", False, True],
    "back": ["501 to 1,000 of 1,200 rows", 500, "t.py::test_0500", False, False],
    "up": ["1 to 500 of 1,200 rows", 500, "t.py::test_0000", True, False],
    "down": ["1 to 500 of 1,200 rows", 500, "t.py::test_1199", True, False],
    "one": ["1 of 1,200 rows", 1, "t.py::test_0777", True, True],
    "message": ["1 of 1,200 rows", 1, "t.py::test_1199", True, True],
    "all": ["1 to 500 of 1,200 rows", 500, "t.py::test_1199", True, False],
    "titles": ["test", "change", "before", "after", "shard", "message"],
}


def page(tests: int = TESTS) -> str:
    """As many tests that fail now, each with its own message."""
    names = [f"t.py::test_{n:04}" for n in range(tests)]
    base = run_of({"01": [case(name) for name in names]}, "base")
    failed = [case(name, outcome="failed", message=f"<b>{n} & 'x'") for n, name in enumerate(names)]
    head = run_of({"01": failed}, "head", run_id=2)
    return FORMATS["html"](compare_run(head, None, [base]))


def test_page_without_scripts_shows_first_rows_and_a_count() -> None:
    text = page()
    shown, _, rest = text.partition('<script type="text/plain">')
    assert shown.count("<td>newly failing</td>") == HTML_ROWS
    assert shown.rstrip().endswith(
        f"and {TESTS - HTML_ROWS} more: shown here if JavaScript runs; the JSON has all"
    )
    rest = rest.partition("</script>")[0]
    assert len(re.findall(r"^<tr>", rest, flags=re.MULTILINE)) == TESTS - HTML_ROWS
    assert "<b>" not in rest
    assert "and 1 more" not in page(HTML_ROWS)


def test_number_of_rows_in_a_page_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ciguard.render.formats.MAX_ROWS", 700)
    text = page()
    assert 'data-left="and 500 more: all are in the JSON"' in text
    assert text.count("<td>newly failing</td>") == 700


@needs_browser
def test_script_shows_all_rows(tmp_path: Path) -> None:
    text = POLICY.sub("", page()).replace("</body>", PERSON)
    found = re.search(r"<pre>(.*?)</pre>", dumped(text, tmp_path))
    assert found is not None
    assert json.loads(entities.unescape(found[1])) == EXPECTED_TABLE_STATES
