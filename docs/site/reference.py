"""The reference pages that are generated from the code, whole or in a table.

`pytest tests/test_docs.py --update-golden` writes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any, Final, Literal, get_args, get_origin

import click
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ciguard import cli, errors
from ciguard.audit.rule_table import RULES, RUN_RULES
from ciguard.compare.comparison import FAIL_ENDS, FAIL_KINDS
from ciguard.compare.transitions import KINDS
from ciguard.config.file import ENVIRONMENT, Config
from ciguard.config.sections import (
    LimitsConfig,
    MetricConfig,
    NeedsConfig,
    PoolConfig,
    SuiteConfig,
    VariantConfig,
    seconds,
    size_bytes,
    size_expression,
)
from ciguard.errors import CiguardError, ExitCode
from ciguard.guard.verdict import LEVELS
from ciguard.guard.wording import WORDS
from ciguard.model import FAIL_CONDITIONS, FailCondition
from ciguard.run import options
from ciguard.run.frameworks.registry import FRAMEWORKS

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "docs" / "reference"
GENERATED: Final = "This page is generated from the code."
SIZES: Final = {"GiB": 2**30, "MiB": 2**20}
TIMES: Final = {"h": 3600, "m": 60, "s": 1}


def _quantity(value: float, units: dict[str, int]) -> str:
    unit = next(name for name, size in units.items() if value % size == 0)
    return f'"{value / units[unit]:g}{unit}"'


def _is_read_by(field: FieldInfo, reader: object) -> bool:
    validators = (getattr(data, "func", None) for data in field.metadata)
    return reader in validators or reader.__name__ in str(field.annotation)  # type: ignore[attr-defined]


def _default(field: FieldInfo) -> str:
    value = field.default
    if field.is_required():
        return "required"
    if value is None or value in ((), {}, ""):
        return ""
    if isinstance(value, tuple):
        return f"`{json.dumps(value)}`"
    if isinstance(value, bool):
        return f"`{json.dumps(value)}`"
    if isinstance(value, float) and _is_read_by(field, seconds):
        return f"`{_quantity(value, TIMES)}`"
    if _is_read_by(field, size_bytes):
        return f"`{_quantity(value, SIZES)}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{json.dumps(value)}`"


def _choices(annotation: Any) -> Iterator[object]:
    for part in get_args(annotation):
        if get_origin(annotation) is Literal:
            yield part
        else:
            yield from _choices(part)


def _type(field: FieldInfo) -> str:
    annotation = field.annotation
    words = {bool: "boolean", int: "integer", float: "number", str: "text"}
    if _is_read_by(field, seconds):
        return "time"
    if _is_read_by(field, size_bytes):
        return "size"
    if _is_read_by(field, size_expression):
        return "expression"
    if choices := [f"`{json.dumps(choice)}`" for choice in _choices(annotation)]:
        several = "list of " if get_origin(annotation) is tuple else ""
        return several + ", ".join(choices)
    if get_origin(annotation) in (tuple, dict):
        return "list" if get_origin(annotation) is tuple else "table"
    plain = next((kind for kind in words if annotation in (kind, kind | None)), None)
    return f"{words[plain]}{_range(field)}" if plain else "any"


def _range(field: FieldInfo) -> str:
    """Its limits, in words; "" without any."""
    limits = {
        name: getattr(data, name)
        for data in field.metadata
        for name in ("ge", "gt", "le", "lt")
        if hasattr(data, name)
    }
    if {"ge", "le"} <= limits.keys():
        return f", {limits['ge']} to {limits['le']}"
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    said = " and ".join(f"{words[name]} {limit:g}" for name, limit in limits.items())
    return f", {said}" if said else ""


def _section(title: str, section: type[BaseModel]) -> list[str]:
    rows = [f"## {title}", "", "| key | type | default | meaning |", "|---|---|---|---|"]
    for name, field in section.model_fields.items():
        if field.description:
            cells = (f"`{field.alias or name}`", _type(field), _default(field), field.description)
            rows.append("| " + " | ".join(cells) + " |")
    return [*rows, ""]


def configuration() -> str:
    """Return the page of the keys, by section, and of the environment variables."""
    sections: dict[str, type[BaseModel]] = {
        "[suite.NAME]": SuiteConfig,
        "[suite.NAME.variant.NAME]": VariantConfig,
        "[[suite.NAME.needs]]": NeedsConfig,
        "[[suite.NAME.limits]]": LimitsConfig,
        "[pool.NAME]": PoolConfig,
        "[metrics.NAME]": MetricConfig,
    }
    for name, field in Config.model_fields.items():
        if isinstance(field.annotation, type) and hasattr(field.annotation, "model_fields"):
            sections[f"[{name}]"] = field.annotation
    lines = [
        "# Configuration",
        "",
        "ciguard reads `ciguard.toml`, or `[tool.ciguard]` of `pyproject.toml` if there is no",
        "`ciguard.toml`. An unknown key is an error. The command line overrides the environment,",
        "and the environment overrides the file.",
        "",
        '- A *time* is a number of seconds or a text such as `"45m"` or `"1h30m"`.',
        '- A *size* is a number of bytes or a text such as `"16GB"` or `"500MiB"`.',
        '- An *expression* is a size or a text such as `"4GiB + 2*150MiB"`. It can also call',
        "  [functions](../explanation/planning.md#declared-memory).",
        '- If the file defines no suite, ciguard uses one without a name: `[suite.""]`.',
        "",
        GENERATED,
        "",
        *_section("Top level", Config),
    ]
    for title, section in sections.items():
        lines += _section(title, section)
    assert all(name == f"CIGUARD_{'_'.join(keys)}".upper() for name, keys in ENVIRONMENT.items())
    names = ", ".join(f"`{name}`" for name in ENVIRONMENT)
    lines += [
        "## Environment variables",
        "",
        "A variable sets the key in its name. For example, `CIGUARD_PLAN_SHARDS` sets `shards` in",
        f"`[plan]`. The variables are: {names}.",
    ]
    return "\n".join(lines).rstrip() + "\n"


def _help(*words: str) -> str:
    """What `ciguard WORDS --help` prints, 100 columns wide."""
    command: click.Command = cli.cli
    context = click.Context(command, info_name="ciguard", max_content_width=110, terminal_width=110)
    for word in words:
        assert isinstance(command, click.Group)
        found = command.get_command(context, word)
        assert found is not None
        command = found
        context = click.Context(command, info_name=word, parent=context, help_option_names=[])
    return command.get_help(context)


def command_line() -> str:
    """Return the page of all `--help` texts; COLUMNS is the width of that of `run`."""
    lines = [
        "# Command line",
        "",
        "Answers go to standard output, messages to standard error. `-` as a file name is standard",
        "input or standard output. Each command has `--help`. [Exit codes](exit-codes.md) are the",
        "same for all commands.",
        "",
        GENERATED,
    ]
    context = click.Context(cli.cli)
    groups = {verb: cli.cli.get_command(context, verb) for verb in cli.VERBS}
    names = {
        verb: group.list_commands(context)
        for verb, group in groups.items()
        if isinstance(group, click.Group)
    }
    for words in (
        *((verb,) for verb in cli.VERBS),
        *((verb, name) for verb, commands in names.items() for name in commands),
    ):
        text = options.argument_parser().format_help() if words == ("run",) else _help(*words)
        text = re.sub(r"\n  -h, --help .*", "", text.rstrip())
        text = text.replace("\n\n", "\n", 1).replace("\n\nOptions:", "\nOptions:")
        lines += ["", f"## ciguard {' '.join(words)}", "", "```text", text, "```"]
    return "\n".join(lines) + "\n"


def _action(name: str) -> list[str]:
    folder = ROOT / "actions" / name if name else ROOT
    content = yaml.safe_load((folder / "action.yml").read_text(encoding="utf-8"))
    title = f"OWNER/ciguard/actions/{name}" if name else "OWNER/ciguard"
    lines = ["", f"## {title}", "", content["description"]]
    for title in [key for key in ("inputs", "outputs") if key in content]:
        rows = [f"| {title.removesuffix('s')} | meaning |", "|---|---|"]
        for key, entry in content[title].items():
            default = f" (default: `{entry['default']}`)" if entry.get("default") else ""
            mark = " (required)" if entry.get("required") else ""
            rows.append(f"| `{key}` | {entry['description'].rstrip('.')}{mark}{default} |")
        lines += ["", *rows]
    return lines


def actions() -> str:
    """Return the page of the inputs and outputs of the actions."""
    lines = [
        "# Actions",
        "",
        "[Comment on test results](../how-to/comment.md) shows how to use the first one, [Shard a "
        "test job of your own workflow](../how-to/into-your-workflow.md) the others. An output is "
        "empty if its step did not run.",
        "",
        GENERATED,
    ]
    for name in ("", "plan", "run", "report", "history", "confirm", "coverage", "culprit", "site"):
        lines += _action(name)
    return "\n".join(lines) + "\n"


# Codes that more commands end with than those whose folders name them.
COMMANDS: Final = {
    **dict.fromkeys((ExitCode.OK, ExitCode.BUG, ExitCode.USAGE, ExitCode.INPUT), "all"),
    ExitCode.REMOTE: "all that use them",
    ExitCode.INTERRUPTED: "all",
}
COMPOSED: Final = {"report": (ExitCode.TESTS_FAILED, ExitCode.REGRESSION)}  # by guard and compare
EXIT_CODE_NOTES: Final = """
`compare` ends with 10, 11 or 13 only with `--fail-on`, and with 12 only with `--strict`.
`experiment` ends with 10 if a measured command failed; `experiment` and `culprit` end with 0 for
every answer. `run` ends with 13 after an error of ciguard, if tests have started. Incomplete
coverage with a minimum leads to 13. `doctor` ends with 3 if it found an error, and `init` if it
found an edited file.
"""


def commands_ending_with(code: ExitCode) -> list[str]:
    """Return the commands whose folder names an exit code or raises an error with that code."""
    errors_of_code = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, CiguardError)
        if getattr(value, "exit_code", None) is code
    ]
    used = re.compile(rf"\b(ExitCode\.{code.name}\b|({'|'.join(errors_of_code) or '(?!)'})\()")
    return [
        verb
        for verb in cli.VERBS
        if code in COMPOSED.get(verb, ())
        or any(
            used.search(path.read_text("utf-8")) for path in (ROOT / "ciguard" / verb).rglob("*.py")
        )
    ]


def exit_codes() -> str:
    """Return the page of the exit codes, with the comments of the enumeration."""
    source = Path(errors.__file__).read_text("utf-8")
    meanings = dict(re.findall(r"(?m)^    ([A-Z_]+) = \d+  #: (.*)$", source))
    lines = [
        "# Exit codes",
        "",
        "This page lists the exit codes of all commands. If several apply, 13 outranks 10, 10",
        f"outranks 11, and 11 outranks 12. {GENERATED}",
        "",
        "| code | name | meaning | commands |",
        "|---|---|---|---|",
    ]
    for code in ExitCode:
        computed = ", ".join(f"`{verb}`" for verb in commands_ending_with(code))
        cells = (
            str(int(code)),
            f"`{code.name}`",
            meanings[code.name],
            COMMANDS.get(code, computed),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n" + EXIT_CODE_NOTES


# Findings of guard, with the key of the configuration that decides them.
GUARD_KEYS: Final = {
    "fewer_units": "`guard.max_drop`, `guard.min_units`",
    "cases_gone": "`guard.max_drop`",
    "few_executed": "`guard.min_executed`",
    "nothing_ran": "`guard.empty`",
    "orphans": "`guard.orphans`",
    "cached_results": "`guard.cached_results`",
    "coverage_below": "`coverage.minimum`, `coverage.diff_minimum`",
    "coverage_incomplete": "the same",
    "above_limit": "`[[suite.NAME.limits]]`",
    "flaky_new_test": "`new_tests.policy`",
    "quarantine": "`quarantine.toml`",
    "job_failed": "",
    "failure_missing": "",
    "unexplained_exit": "",
}
# Findings of the same rule as another one.
SIMILAR: Final = {
    "orphans": ("orphans_of_list",),
    "above_limit": ("more_above_limit",),
    "flaky_new_test": (
        *("new_test_fails_again", "new_test_fails_alone", "new_test_fails_after"),
        "more_flaky_new_tests",
    ),
}
LEVEL_WORDS: Final = {"incomplete": "INCOMPLETE", "failed": "FAILED", "warning": "warning"}
# Levels that a value of the key decides.
STATED_LEVELS: Final = {
    "cases_gone": "warning; INCOMPLETE if more than `guard.max_drop` of the suite's cases are gone",
    "nothing_ran": 'INCOMPLETE; warning with `"pass"`',
    "cached_results": 'warning; INCOMPLETE with `"fail"`',
    "coverage_incomplete": "INCOMPLETE with a minimum; otherwise warning",
    "flaky_new_test": 'warning; FAILED with `"enforce"`',
}
CONDITIONS: Final[Mapping[FailCondition, str]] = {
    "memory": "a test needs more memory, or a process leaks memory (confirmed)",
    "gpu-memory": "a test or a shard needs more memory of a GPU (confirmed)",
    "swap": "a shard swaps more (confirmed)",
    "duration": "a test takes longer (confirmed), or the whole suite does",
    "metric": "a metric is worse, or outside its bounds",
    "incomplete": "a shard or a test of the candidate has no result",
}


def readable(template: str) -> str:
    """Return a sentence of a finding with words in the place of its facts."""
    words = []
    for text, name, form, _ in Formatter().parse(template):
        words.append(text)
        if name is not None:
            shown = name.replace("_ratio", " %").replace("units", "tests")
            number = re.sub("_(s|bytes)$", "", shown).upper()
            if form not in ("", ",", "g", "words", "exit"):
                number = f"{'N' if name in ('count', 'units') else number} {form}s"
            words.append(number)
    return "".join(words)


def findings() -> str:
    """Return the page of the findings that a key decides or that decide an exit code."""
    lines = [
        "# Findings",
        "",
        "This page lists the changes that `fail_on` names, and those findings of `ciguard guard`",
        "that depend on a key of the configuration, or make a complete run FAILED. [What guard",
        f"proves](../explanation/proof.md) has the reasons for INCOMPLETE. {GENERATED}",
        "",
        "JSON has the name of a finding as `kind`. A sentence leaves out a part in [brackets] that",
        "is not known.",
        "",
        "## Findings of guard",
        "",
        "INCOMPLETE leads to [exit code](exit-codes.md) 13, FAILED to 10. A warning changes no",
        "exit code.",
        "",
        "| kind | sentence | decided by | effect |",
        "|---|---|---|---|",
    ]
    for kind, key in GUARD_KEYS.items():
        level = STATED_LEVELS.get(kind) or LEVEL_WORDS[LEVELS.get(kind, "incomplete")]
        kinds = ", ".join(f"`{name}`" for name in (kind, *SIMILAR.get(kind, ())))
        lines.append(f"| {kinds} | {readable(WORDS[kind].message)} | {key} | {level} |")
    shown = {*GUARD_KEYS, *(kind for kinds in SIMILAR.values() for kind in kinds)}
    warnings = [kind for kind, level in LEVELS.items() if level == "warning" and kind not in shown]
    lines += [
        "",
        f"{len(warnings)} further findings are always warnings. Every other finding makes the run",
        "INCOMPLETE, unless its `level` in the JSON differs.",
        "",
        "## Changes of compare",
        "",
        "`policy.fail_on` and `--fail-on` take these names. The kinds are those of `transitions`.",
        "",
        "| name | found if | exit code |",
        "|---|---|---|",
    ]
    for name in FAIL_CONDITIONS:
        kinds = ", ".join(f"`{kind}`" for kind in FAIL_KINDS.get(name, ()))
        if endings := " or ".join(f"`{ending}`" for ending in FAIL_ENDS.get(name, ())):
            kinds += f"; a shard that newly ends as {endings}"
        code = ExitCode.TESTS_FAILED if kinds else ExitCode.REGRESSION
        code = ExitCode.INCOMPLETE if name == "incomplete" else code
        lines.append(f"| `{name}` | {CONDITIONS.get(name, kinds)} | {int(code)} |")
    failing = {kind for kinds in FAIL_KINDS.values() for kind in kinds}
    others = ", ".join(f"`{kind}`" for kind in KINDS if kind not in failing)
    what = "`fail_on` cannot select these kinds, but guard may fail a run that has them"
    lines += ["", f"{what}: {others}."]
    return "\n".join(lines) + "\n"


def audit_rules() -> str:
    """Return the page of the rules with its table; the examples are written by hand."""
    rows = ["| rule | reads | finds | certainty |", "|---|---|---|---|"]
    for name, rule in RULES.items():
        noun, what = rule.COUNTED
        read = "runs" if name in RUN_RULES else "workflows"
        certainty = "certain or possible" if rule.CAVEATS else "certain"
        rows.append(f"| [`{name}`](#{name}) | {read} | {noun}s: {what} | {certainty} |")
    return with_table("audit-rules", rows)


def frameworks() -> str:
    """Return the page of the frameworks with its first table; the rest is written by hand."""
    rows = [
        "| framework | a plan divides | default command | key `parallel` |",
        "|---|---|---|---|",
    ]
    for name, row in FRAMEWORKS.items():
        command = f"`{' '.join(row.default_command)}`" if row.default_command else ""
        rows.append(f"| `{name}` | {row.unit} | {command} | {'yes' if row.has_parallel else ''} |")
    return with_table("frameworks", rows)


def with_table(name: str, rows: Sequence[str]) -> str:
    """Return a page written by hand with a new table between its two comments."""
    page = (FOLDER / f"{name}.md").read_text("utf-8")
    start, end = "<!-- generated from the code -->\n", "<!-- end of the generated table -->"
    before, _, rest = page.partition(start)
    return "\n".join([before + start.rstrip(), *rows, end + rest.partition(end)[2]])


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "actions": actions,
    "audit-rules": audit_rules,
    "command-line": command_line,
    "configuration": configuration,
    "exit-codes": exit_codes,
    "findings": findings,
    "frameworks": frameworks,
}
