"""Words of messages, help, templates and pages: plain English, without ciguard's own words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Phrases that have no ordinary English use in what a user reads here.
PHRASES = (
    *("are told", "by the mood", "dearer", "goes without", "had its turn", "innocent", "is told"),
    *("is called so", "is no duration", "its keeper", "its turn", "lacks one", "mend", "not told"),
    *("no word about", "nobody has seen", "nobody knows", "nobody said", "of whom", "taken for"),
    *("tells of", "to blame", "told of", "turn had not come", "what stays behind"),
    *("without a word", "written and unproven"),
)
# Words of the code for which a user reads "job", "test", "separate" or "no person". Not those of an
# option, a key, a placeholder or a code span: `--units`, {"unit": ...}, {units}.
OWN_WORDS = re.compile(
    r"(?i)(?<![\w{}\"'<$/.-])(?:legs?|units?|of (?:its|their) own|whatever|whoever|nobody|somebody)"
    r"(?![\w}\"'=:-])"
)
CODE = re.compile(
    r"(?ms)^ *```.*?^ *```|`[^`]*`|\{[{%#].*?[}%#]\}|<[%<#].*?[%>#]>|^ *(?://|#) .*?$"
)
ALLOWED = (  # units of measure, SQL, the source of a program
    *("no unit ", "has its own unit", "name, unit or key", "` its unit", "unit of the num"),
    *("SELECT ", "suite, variant, unit", "IN lower(unit)", " AND unit IN", "import os, shutil"),
)
# In pages: units of measure, and the two words as the glossary explains them for JSON.
IN_PAGES = re.compile(
    r"its\s+unit\b|unit of the number|\| unit \||\[unit\]|name, unit and key|units of measure|"
    r"\*(?:unit|leg)\*"
)


def _unplain(text: str) -> list[str]:
    found = re.findall(rf"\b(?:{'|'.join(PHRASES)})\b", " ".join(text.lower().split()))
    return found + OWN_WORDS.findall(CODE.sub("", text))


def _messages(source: str) -> Iterator[str]:
    """Every text of a module but its docstrings and single words."""
    nodes = list(ast.walk(ast.parse(source)))
    bodies = (node.body for node in nodes if hasattr(node, "body"))
    first = (body[0] for body in bodies if isinstance(body, list) and body)
    docstrings = {id(one.value) for one in first if isinstance(one, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield node.value if isinstance(node.value, str) and " " in node.value else ""


def test_pages_and_templates_are_plain_english() -> None:
    globs = ("*.md", "docs/**/*.md", "skills/**/*.md", "templates/**/*.j*")
    texts = (path for each in globs for path in ROOT.glob(each))
    pages = {path.name: IN_PAGES.sub("", path.read_text(encoding="utf-8")) for path in texts}
    found = {name: _unplain(text) for name, text in pages.items()}
    assert {name: words for name, words in found.items() if words} == {}


def test_messages_are_plain_english() -> None:
    found = [
        f"{path.name}: {_unplain(message)} in {message!r}"
        for path in sorted((ROOT / "ciguard").rglob("*.py"))
        for message in _messages(path.read_text(encoding="utf-8"))
        if _unplain(message) and not any(text in message for text in ALLOWED)
    ]
    assert found == []
