"""Documentation that cannot lie: what it lists is what the code has."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ciguard import cli, model
from ciguard.codec.record.lines import CHECKS
from ciguard.config import Config, PoolConfig, SuiteConfig, VariantConfig
from ciguard.errors import ExitCode

if TYPE_CHECKING:
    from conftest import Golden
    from pydantic import BaseModel

ROOT = Path(__file__).parent.parent
LINES = (
    model.ShardLine, model.Runner, model.DefaultsLine, model.ProcessLine, model.StartLine,
    model.Result, model.SampleLine, model.MetricLine, model.EventLine, model.ProcessEndLine,
    model.EndLine,
)  # fmt: skip


def test_record_page_names_every_key_and_every_word() -> None:
    page = (ROOT / "docs" / "record.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", page))
    keys = {field.name for line in LINES for field in dataclasses.fields(line)}
    assert keys - {"try_number"} | {"try"} <= named
    assert all(word in page for word in (*model.OUTCOMES, *model.ENDINGS, *model.MEASURED_BY))
    assert CHECKS  # every annotation of those fields has its reader, or the import had failed


def test_readme_has_the_exit_codes_and_the_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", readme, flags=re.MULTILINE)}
    assert codes == {int(code) for code in ExitCode}
    verbs = re.findall(r"^\| `ciguard (\w+)", readme, flags=re.MULTILINE)
    assert verbs == list(cli.VERBS)


def _default(value: Any) -> str:
    if value is None or value in ((), {}, ""):
        return ""
    if isinstance(value, tuple):
        return "`" + ", ".join(map(str, value)) + "`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _section(title: str, section: type[BaseModel]) -> list[str]:
    rows = [f"## {title}", "", "| key | default | meaning |", "|---|---|---|"]
    for name, field in section.model_fields.items():
        if field.description:
            default = _default(field.default)
            rows.append(f"| `{field.alias or name}` | {default} | {field.description} |")
    return [*rows, ""]


def test_configuration_page_is_what_the_code_reads(golden: Golden) -> None:
    sections: dict[str, type[BaseModel]] = {
        "[suite.NAME]": SuiteConfig,
        "[suite.NAME.variant.NAME]": VariantConfig,
        "[pool.NAME]": PoolConfig,
    }
    for name, field in Config.model_fields.items():
        if isinstance(field.annotation, type) and hasattr(field.annotation, "model_fields"):
            sections[f"[{name}]"] = field.annotation
    lines = [
        "# Configuration",
        "",
        "`ciguard.toml`, or `[tool.ciguard]` of `pyproject.toml`. Written from the code by",
        "`pytest tests/test_docs.py --update-golden`. Times are numbers of seconds or texts like",
        '`"45m"` and `"1h30m"`, sizes numbers of bytes or texts like `"16GB"` and `"500MiB"`.',
        'A suite without a table is called `""`; `[suite.""]` configures it and keeps its past.',
        "The environment overrides: `CIGUARD_PLAN_SHARDS=4` sets `shards` of `[plan]`, and so on",
        "for `[plan]` and `[policy]`; `CIGUARD_INSTALL`, `CIGUARD_HISTORY_STORE`. Flags override",
        "both.",
        "",
        *_section("Top level", Config),
    ]
    for title, section in sections.items():
        lines += _section(title, section)
    golden("\n".join(lines).rstrip() + "\n", ROOT / "docs" / "configuration.md")
