"""Names and messages that want to be something else, and a run that is full of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from guard.fixtures import World, make_leg, make_plan, passed

from ciguard.codec.record.reader import read_records
from ciguard.compare.compare_runs import compare_run
from ciguard.compare.comparison import Comparison
from ciguard.compare.run_columns import runs_from_records
from ciguard.model import Result
from ciguard.render.links import Links
from ciguard.report.view import ReportData

NAMES: Final = (
    "[l](http://evil.example)::t",
    "![i](http://evil.example/x.png)::t",
    "http://evil.example/x::t",
    "www.evil.example::t",
    "<script>alert(1)</script>::t",
    "<img src=x onerror=alert(1)>::t",
    "</code></td></table></details><h1>owned</h1>::t",
    "<!-- ciguard:tests.yml -->::t",
    "@everyone @octocat::t",
    "#1 GH-2 octo-org/shop#3::t",
    "`code` ``more`` ```mermaid::t",
    "a|b||c \\| d::t",
    "**bold** __more__ ~~gone~~ $x$ :x:::t",
    "::set-output name=x::1",
    "::error file=a::b",
    "${{ secrets.TOKEN }}::t",
    "{{ 7 * 7 }} {% raw %}::t",
    'xychart-beta"]\n    bar [9]\n%%{init: {}}%%::t',
    "\u202egnp.exe\u2066::t",
    "zero\u200bwidth \u00a0 \x1b[31mred\x07::t",
    "one\r\n## two\n- three::t",
    "\ud800::t",
    "&lt;b&gt; &amp; &#60;::t",
    "x" * 5000 + "::t",
    "= 1 + 2 '\"<>&::t",
)
SHARDS: Final = ("01", '`|<b>"', "a] b\n@all")
SITE: Final = Links("https://github.com/octo-org/shop", 7, 1, "a" * 40)


def world(*, bad: bool, run: int) -> World:
    """Every name in every shard; with `bad`, each fails with a message like it."""
    shards = {shard: tuple(f"{at}{name}" for name in NAMES) for at, shard in enumerate(SHARDS)}
    plan = make_plan(shards)
    made = World(plan, {key: make_leg(plan, key, run=run) for key in shards})
    if not bad:
        return made
    for leg in made.legs.values():
        leg.inner = [
            passed(line.unit, outcome="failed", message=line.unit, file=line.unit, line=3)
            if isinstance(line, Result)
            else line
            for line in leg.inner
        ]
    return made


def hostile_report() -> ReportData:
    """A red run of such names against a green one, as a report knows it."""
    now, before = world(bad=True, run=7), world(bad=False, run=6)
    records = read_records(now.files().items())
    compared: Comparison = compare_run(
        runs_from_records(records, "this run")[-1],
        None,
        [runs_from_records(read_records(before.files().items()), "base")[-1]],
        plan=now.plan,
    )
    verdict = now.prove()
    jobs = dict.fromkeys(SHARDS, "https://github.com/x) <script>")
    links = replace(SITE, jobs=jobs)
    return ReportData(now.plan, verdict, compared, links=links, records=tuple(records))
