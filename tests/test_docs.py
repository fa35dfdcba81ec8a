"""Documentation that cannot lie: what it lists is what the code has."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
import pytest
import yaml
from conftest import Golden
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ciguard import cli, model
from ciguard.codec.record.lines import CHECKS
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
from ciguard.errors import ExitCode
from ciguard.run import options
from ciguard.run.frameworks.registry import FRAMEWORKS

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
LINES = (
    model.ShardLine, model.Runner, model.DefaultsLine, model.ProcessLine, model.StartLine,
    model.Result, model.SampleLine, model.MetricLine, model.EventLine, model.ProcessEndLine,
    model.EndLine,
)  # fmt: skip


def test_record_page_names_every_key() -> None:
    page = (REFERENCE / "record.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", page))
    keys = {field.name for line in LINES for field in dataclasses.fields(line)}
    assert keys - {"try_number"} | {"try"} <= named
    assert {*model.OUTCOMES, *model.MEASURED_BY} <= named
    assert CHECKS  # every annotation of those fields has its reader, or the import had failed


def _first_column(page: str, title: str) -> set[str]:
    """The names in the first column of the tables below a title."""
    section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"(?m)^\| (`[^|]*) \|", section)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_record_page_names_every_event_kind() -> None:
    page = (REFERENCE / "record.md").read_text(encoding="utf-8")
    kinds = {kind for part in get_args(model.EventKind) for kind in get_args(part)}
    assert _first_column(page, "Event kinds") == kinds - set(model.ENDINGS)


def test_endings_page_names_every_ending() -> None:
    page = (REFERENCE / "endings.md").read_text(encoding="utf-8")
    assert _first_column(page, "Meaning") == set(model.ENDINGS)


def test_exit_codes_page_names_the_commands_that_use_each() -> None:
    page = (REFERENCE / "exit-codes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \|.*\| (.*) \|$", page, flags=re.MULTILINE)
    named = {int(code): set(re.findall(r"`(\w+)|^(all)$", cell)) for code, cell in rows}
    assert named.keys() == {int(code) for code in ExitCode}
    for verb in cli.VERBS:
        sources = (path.read_text("utf-8") for path in (ROOT / "ciguard" / verb).rglob("*.py"))
        used = {name for text in sources for name in re.findall(r"\bExitCode\.([A-Z_]+)", text)}
        for code in map(ExitCode.__getitem__, used & ExitCode.__members__.keys()):
            assert named[code] & {(verb, ""), ("", "all")}, f"{code!r}: {verb} ends with it"


SIZES = {"GiB": 2**30, "MiB": 2**20}
TIMES = {"h": 3600, "m": 60, "s": 1}


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


def test_configuration_page_matches_the_code(golden: Golden) -> None:
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
        '- An *expression* is a size or a text such as `"4GiB + 2*150MiB"`, with the functions in',
        "  [planning](../explanation/planning.md#declared-memory).",
        '- If the file defines no suite, ciguard uses one without a name: `[suite.""]`.',
        "",
        "This page is generated from the code by `pytest tests/test_docs.py --update-golden`.",
        "",
        *_section("Top level", Config),
    ]
    for title, section in sections.items():
        lines += _section(title, section)
    lines += ["## Environment variables", "", "| variable | key |", "|---|---|"]
    lines += [f"| `{name}` | `{'.'.join(keys)}` |" for name, keys in ENVIRONMENT.items()]
    golden("\n".join(lines).rstrip() + "\n", REFERENCE / "configuration.md")


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


def test_command_line_page_matches_the_help(
    golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    lines = [
        "# Command line",
        "",
        "Answers go to standard output, messages to standard error. `-` as a file name is standard",
        "input or standard output. [Exit codes](exit-codes.md) are the same for all commands.",
        "",
        "This page is generated from the code by `pytest tests/test_docs.py --update-golden`.",
        "",
        "| command | purpose |",
        "|---|---|",
        *(f"| [`ciguard {verb}`](#ciguard-{verb}) | {text} |" for verb, text in cli.VERBS.items()),
    ]
    history = ("add", "pull", "push", "show")
    serve = ("backfill", "check", "prune", "retry", "token")
    for words in (
        *((verb,) for verb in cli.VERBS),
        *(("history", name) for name in history),
        *(("serve", name) for name in serve),
    ):
        text = options.argument_parser().format_help() if words == ("run",) else _help(*words)
        text = text.rstrip().replace("\n\n", "\n", 1).replace("\n\nOptions:", "\nOptions:")
        lines += ["", f"## ciguard {' '.join(words)}", "", "```text", text, "```"]
    golden("\n".join(lines) + "\n", REFERENCE / "command-line.md")


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


def test_table_of_frameworks_matches_the_adapters() -> None:
    page = (REFERENCE / "frameworks.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert {row[0].strip(" `"): row[1] for row in rows} == {
        name: adapter.unit for name, adapter in FRAMEWORKS.items()
    }


def test_actions_page_matches_the_actions(golden: Golden) -> None:
    lines = [
        "# Actions",
        "",
        "[Comment on test results](../how-to/comment.md) shows how to use the first one, [Shard a "
        "test job of your own workflow](../how-to/into-your-workflow.md) the others. An output is "
        "empty if its step did not run.",
        "",
        "This page is generated from the code by `pytest tests/test_docs.py --update-golden`.",
    ]
    for name in ("", "plan", "run", "report", "history", "confirm", "coverage", "culprit", "site"):
        lines += _action(name)
    golden("\n".join(lines) + "\n", REFERENCE / "actions.md")


PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
AGENT_PAGES = (ROOT / "AGENTS.md", ROOT / "skills" / "ciguard" / "SKILL.md")


def _anchors(page: Path) -> set[str]:
    titles = re.findall(r"(?m)^#+ (.*)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_links_between_pages_resolve() -> None:
    for page in (*PAGES, *AGENT_PAGES):
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = link.partition("#")
            if "://" in path:
                continue
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page.name}: {link}"
            assert not anchor or anchor in _anchors(target), f"{page.name}: {link}"


def test_index_for_agents_lists_every_page(golden: Golden) -> None:
    lines = ["# ciguard", "", *(f"> {line}" for line in INDEX), "", QUESTIONS]
    for folder in (".", "docs", "docs/how-to", "docs/reference", "docs/explanation"):
        pages = [page for page in PAGES if page.parent == (ROOT / folder).resolve()]
        lines += ["", f"## {folder.rpartition('/')[2].replace('.', 'start')}", ""]
        for page in pages:
            title = page.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
            lines.append(f"- [{title}]({page.relative_to(ROOT).as_posix()})")
    golden("\n".join(lines) + "\n", ROOT / "llms.txt")


INDEX = (
    "ciguard runs large test suites on GitHub Actions as balanced parallel jobs, supervises each",
    "job, proves that every planned test ran, compares runs, and says in one comment whose each",
    "failure is.",
)
QUESTIONS = (
    "To ask about a run: [ten questions](skills/ciguard/SKILL.md). To change ciguard: "
    "[AGENTS.md](AGENTS.md)."
)


def test_docs_stay_short() -> None:
    lines = sum(len(page.read_text(encoding="utf-8").splitlines()) for page in PAGES[1:])
    assert lines <= 4320 + 40 * len(FRAMEWORKS)


# Phrases that have no ordinary English use in what a user reads here.
PHRASES = (
    *("are told", "goes without", "had its turn", "innocent", "is called so", "is no duration"),
    *("is told", "its keeper", "its turn", "lacks one", "mend", "no word about", "nobody said"),
    *("not told", "of whom", "taken for", "told of", "tells of", "to blame", "turn had not come"),
    *("without a word", "written and unproven"),
)
IN_PROSE = ("nobody knows", "nobody has seen", "dearer", "what stays behind", "by the mood")


def _phrases_in(text: str, phrases: tuple[str, ...] = PHRASES) -> list[str]:
    words = " ".join(text.lower().split())
    return re.findall(rf"\b(?:{'|'.join(phrases)})\b", words)


def _messages(source: str) -> Iterator[str]:
    """Every text of a module but its docstrings."""
    nodes = list(ast.walk(ast.parse(source)))
    bodies = (node.body for node in nodes if hasattr(node, "body"))
    first = (body[0] for body in bodies if isinstance(body, list) and body)
    docstrings = {id(one.value) for one in first if isinstance(one, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield node.value if isinstance(node.value, str) else ""


def test_pages_and_templates_are_plain_english() -> None:
    texts = (*PAGES, ROOT / "CHANGELOG.md", *sorted((ROOT / "templates").glob("*.j2")))
    found = {
        path.name: _phrases_in(path.read_text(encoding="utf-8"), (*PHRASES, *IN_PROSE))
        for path in texts
    }
    assert {name: phrases for name, phrases in found.items() if phrases} == {}


def test_messages_are_plain_english() -> None:
    found = [
        f"{path.name}: {phrase!r} in {message!r}"
        for path in sorted((ROOT / "ciguard").rglob("*.py"))
        for message in _messages(path.read_text(encoding="utf-8"))
        for phrase in _phrases_in(message)
    ]
    assert found == []
