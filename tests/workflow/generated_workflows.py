"""Workflows with one test job, in the many ways that YAML has to write the same. Seeded."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

MATRICES = (
    ["os: [ubuntu-latest, macos-latest]", 'python: ["3.12", 3.13] # quoted, or a number'],
    ["include:", "- python: 3.12", "  os: a # of ours", "", "- {python: 3.14, os: b}"],
    ["python:", "- 3.12", "# the newest", "- 3.13", "exclude:", "- python: 3.12"],
    ["include: &all", "- {a: 1}", "- a: 2", "  b: [x, y]"],
    ["a: &a [1, 2]", "b: *a", "include: [{a: 1, b: 2, c: 'x: y'}]"],
    ["axis: # objects", "- name: one", "  filter: 'a|b'", "- name: two", "  filter: c"],
)
FLOW_MATRICES = (
    "{os: [ubuntu-latest, macos-latest]}",
    "{ python: ['3.12', '3.13'], include: [{python: '3.14', new: true}] }",
    "{a: &a [1, 2], b: *a}",
)
# The value of `run`, and its further lines below the key's indent.
SCRIPTS: tuple[tuple[str, ...], ...] = (
    ("pytest -q",),
    ("'python -m pytest' # quoted",),
    ('"uv run pytest -k \\"a b\\""',),
    ("tox -e ${{ matrix.python }} # by tox",),
    ("|", "set -e", "", "if x; then", "  pytest", "fi"),
    ("|-  # no line end", "# no set-up", "make test"),
    (">-", "pytest", "-q", "", "tests"),
    ("|2", "  echo indented", "pytest"),
    ("pytest", "  -q", "tests"),
)
NEEDS = ("needs: build", "needs: 'build' # first", "needs: [build, lint]", "needs: [ build ]")


@dataclass
class Generated:
    """A workflow's lines, and which of them an edit may change."""

    seed: int
    lines: list[str] = field(default_factory=list)
    editable: list[bool] = field(default_factory=list)
    line_break: str = "\n"
    head: str = ""
    has_final_break: bool = True

    def add(self, indent: int, text: str, *, edit: bool = False) -> None:
        self.lines.append(" " * indent + text if text else "")
        self.editable.append(edit)

    @property
    def text(self) -> str:
        end = self.line_break if self.has_final_break else ""
        return self.head + self.line_break.join(self.lines) + end

    @property
    def untouched(self) -> list[str]:
        """The lines that must stay, in their order."""
        pairs = zip(self.lines, self.editable, strict=True)
        return [line for line, editable in pairs if not editable and line]


def generate(seed: int) -> Generated:
    dice = random.Random(seed)
    made = Generated(seed)
    made.line_break = dice.choice(["\n", "\n", "\r\n"])
    made.head = dice.choice(["", "", "", "\ufeff"])
    made.has_final_break = dice.random() < 0.8
    unit = dice.choice([2, 2, 4])
    made.add(0, dice.choice(["# Tests", "---", "name: CI # ours", "'name': CI"]))
    made.add(
        0, dice.choice(["on: [push, pull_request]", '"on": push', "on: {push: , workflow_call: }"])
    )
    made.add(
        0, dice.choice(["permissions: {}", "permissions: read-all", "env: {A: &anchor b}", ""])
    )
    if dice.random() < 0.3:
        made.add(0, "defaults:")
        made.add(unit, "run: {shell: bash}")
    made.add(0, dice.choice(["jobs:", "jobs: # all of them", "jobs:   "]))
    jobs = ["test", "build", "lint", "all-green"]
    dice.shuffle(jobs)
    for job in jobs:
        if dice.random() < 0.5:
            made.add(0, "")
        if dice.random() < 0.5:
            made.add(unit, f"# About {job} {seed}")
        OTHERS[job](made, unit, dice)
    if dice.random() < 0.3:
        made.add(0, dice.choice(["# the end", "", "run-name: last", "  # the end, indented"]))
    while not made.lines[-1]:
        made.lines.pop()
        made.editable.pop()
    return made


def add_build(made: Generated, unit: int, dice: random.Random) -> None:
    made.add(unit, "build:")
    made.add(2 * unit, "runs-on: &runner ubuntu-latest")
    made.add(2 * unit, "steps:")
    own = dice.choice([0, unit])
    made.add(2 * unit + own, "- run: |")
    made.add(2 * unit + own + 4, "make wheel")
    made.add(0, "")
    made.add(2 * unit + own + 4, "pip install pytest")


def add_lint(made: Generated, unit: int, dice: random.Random) -> None:
    made.add(unit, "lint: {runs-on: ubuntu-latest, steps: [{run: make lint}]} # one line")


def add_aggregation(made: Generated, unit: int, dice: random.Random) -> None:
    made.add(unit, "all-green:")
    needs = dice.choice(["needs: [test, build]", "needs: test"])
    # It has the words of an undetected skip or of a detected one.
    is_blind = dice.random() < 0.6
    made.add(2 * unit, needs, edit=True)
    made.add(2 * unit, "if: ${{ always() }}")
    made.add(2 * unit, "runs-on: ubuntu-latest")
    made.add(2 * unit, "steps:")
    word = "contains(needs.*.result, 'failure')" if is_blind else "needs.test.result != 'success'"
    made.add(2 * unit, f"- if: {word}")
    made.add(2 * unit + 2, "run: exit 1")


def add_test(made: Generated, unit: int, dice: random.Random) -> None:
    made.add(unit, dice.choice(["test:", "test: # the tests", '"test":']))
    column = 2 * unit
    parts = [add_needs, add_strategy, add_plain_keys, add_name, add_permissions]
    dice.shuffle(parts)
    if dice.random() < 0.3:
        made.add(column, "# in all versions")
    for part in parts:
        part(made, column, unit, dice)
        if dice.random() < 0.15:
            made.add(0, "")
    steps = column + dice.choice([0, unit])
    made.add(column, dice.choice(["steps:", "steps: # in this order"]))
    made.add(steps, "- uses: actions/checkout@v7")
    made.add(steps, "# installers are no tests")
    made.add(steps, dice.choice(["- run: pip install tox", "- {run: pip install pytest}"]))
    add_step(made, steps, unit, dice)
    if dice.random() < 0.4:
        made.add(steps, "- uses: actions/upload-artifact@v7")
        name = dice.choice(["name: log", "name: 'log-${{ matrix.python }}'", ""])
        made.add(steps + 2, "with:")
        made.add(steps + 2 + unit, name, edit=True) if name else None
        made.add(steps + 2 + unit, "path: log")
    if dice.random() < 0.5:
        made.add(steps, "- run: echo done # after the tests")


def add_needs(made: Generated, column: int, unit: int, dice: random.Random) -> None:
    kind = dice.choice(["none", "line", "lines", "own indent", "several lines"])
    if kind == "line":
        made.add(column, dice.choice(NEEDS), edit=True)
    elif kind == "several lines":
        made.add(column, "needs: [", edit=True)
        made.add(column + unit, "build,")
        made.add(column, "]")
    elif kind != "none":
        indent = column + (unit if kind == "lines" else 0)
        made.add(column, "needs:")
        made.add(indent, "- build # the wheel")
        made.add(indent, "- lint")


def add_strategy(made: Generated, column: int, unit: int, dice: random.Random) -> None:
    kind = dice.choice(["none", "block", "block", "block", "flow", "all flow", "no matrix"])
    if kind == "none":
        return
    if kind == "all flow":
        matrix = f"matrix: {dice.choice(FLOW_MATRICES)}"
        text = f"strategy: {{fail-fast: false, {matrix}, max-parallel: 2}} # flow"
        made.add(column, text, edit=True)
        return
    made.add(column, "strategy: # of the shards")
    made.add(column + unit, "fail-fast: false # all of them")
    if kind == "flow":
        made.add(column + unit, f"matrix: {dice.choice(FLOW_MATRICES)} # flow", edit=True)
    if kind == "block":
        made.add(column + unit, dice.choice(["matrix:", "matrix: # versions"]), edit=True)
        if dice.random() < 0.3:
            made.add(column + 2 * unit, "# first", edit=True)
        for line in dice.choice(MATRICES):
            made.add(column + 2 * unit, line, edit=True)
        if dice.random() < 0.3:
            made.add(column + 2 * unit, "# last", edit=True)
    if dice.random() < 0.4:
        made.add(column + unit, "max-parallel: 4")


def add_plain_keys(made: Generated, column: int, unit: int, dice: random.Random) -> None:
    made.add(column, "runs-on: ubuntu-latest")
    if dice.random() < 0.3:
        made.add(column, "env:")
        made.add(column + unit, "DATABASE: 'a: b' # \u00e9")
    if dice.random() < 0.2:
        made.add(column, "if: github.event_name != 'schedule'")
    if dice.random() < 0.2:
        made.add(column, "defaults: {run: {working-directory: server}}")
    if dice.random() < 0.2:
        made.add(column, "services:")
        made.add(column + unit, "db: {image: 'postgres:18'}")


def add_name(made: Generated, column: int, unit: int, dice: random.Random) -> None:
    names = ["Tests", "'Tests on ${{ matrix.os }}'", '"Tests" # short', "Tests, it''s all # x"]
    if dice.random() < 0.6:
        made.add(column, f"name: {dice.choice(names)}", edit=True)


def add_permissions(made: Generated, column: int, unit: int, dice: random.Random) -> None:
    kind = dice.choice(["", "", "permissions: {contents: read}", "block", "permissions: {}"])
    if kind == "block":
        made.add(column, "permissions:")
        made.add(column + unit, "contents: read # to check out")
    elif kind:
        made.add(column, kind, edit=True)


def add_step(made: Generated, column: int, unit: int, dice: random.Random) -> None:
    """The test step: its keys in any order, the first one after the dash."""
    value, *more = dice.choice(SCRIPTS)
    script = [f"run: {value}", *(" " * 4 + line if line else "" for line in more)]
    if value == "|2":
        script = [script[0], *("  " + line for line in more)]
    keys: list[tuple[list[str], bool]] = [(script, True)]
    extra = {
        "name: Run the tests": False,
        "id: tests # of this step": False,
        "shell: bash -el {0} # login": True,
        "working-directory: 'sub folder'": True,
        "if: always()": False,
        "timeout-minutes: 20": False,
    }
    keys += [([text], edit) for text, edit in extra.items() if dice.random() < 0.3]
    if dice.random() < 0.3:
        keys.append((["env:", "  TOKEN: ${{ secrets.TOKEN }} # secret"], False))
    dice.shuffle(keys)
    for position, (lines, edit) in enumerate(keys):
        for number, line in enumerate(lines):
            dash = "- " if position == number == 0 else "  "
            made.add(column, dash + line if line else "", edit=edit)
        if dice.random() < 0.1 and not more:
            made.add(column + 2, "# between the keys")
    if dice.random() < 0.4:
        made.add(0, "")


OTHERS = {"test": add_test, "build": add_build, "lint": add_lint, "all-green": add_aggregation}
