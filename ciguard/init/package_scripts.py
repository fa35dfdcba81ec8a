"""What the scripts of a package.json add to a call of the test framework. Pure.

A project that is tested by `NODE_OPTIONS=--experimental-vm-modules jest --config unit.json` fails
without either. https://docs.npmjs.com/cli/using-npm/scripts
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.S)
STARTERS: Final = ("cross-env", "env", "npx")  # before the program, and its assignments
SEPARATOR: Final = re.compile(r"&&|\|\||;")
SHELL: Final = re.compile(r"[$|<>`&]")  # what only a shell understands
# What never ends. The same words say other things elsewhere: `-w` is how many workers Jest has,
# `--ui` the interface of Mocha.
ENDLESS: Final[Mapping[str, re.Pattern[str]]] = {
    "jest": re.compile(r"--watch(?:All|-all)?(?:=.*)?$"),
    "vitest": re.compile(r"(?:-w|--watch|--ui)(?:=.*)?$"),
    "mocha": re.compile(r"(?:-w|--watch)(?:=.*)?$"),
    "playwright": re.compile(r"--ui(?:=.*)?$"),
}


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A framework as a script calls it: arguments behind the program, variables before it."""

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def framework_call(text: str, program: Sequence[str]) -> ScriptCall:
    """How the test script calls a program; without anything where none does.

    Args:
        text: of package.json.
        program: its name, and the word for a run behind it: `vitest run`.
    """
    for script in _test_scripts(text):
        for part in SEPARATOR.split(script):
            found = None if SHELL.search(part) else _call(part, program)
            if found is not None:
                return found
    return ScriptCall()


def _test_scripts(text: str) -> Iterator[str]:
    """`test` first, then `test:unit` and its like in the order of the file."""
    try:
        scripts = json.loads(text).get("scripts", {})
        names = [name for name in scripts if name.startswith("test")]
    except (ValueError, AttributeError, TypeError):
        return
    yield from (str(scripts[name]) for name in sorted(names, key=lambda name: name != "test"))


def _call(part: str, program: Sequence[str]) -> ScriptCall | None:
    try:
        words = shlex.split(part)
    except ValueError:  # a quote that is not closed
        return None
    env: dict[str, str] = {}
    while words and (words[0] in STARTERS or ASSIGNMENT.fullmatch(words[0])):
        assignment = ASSIGNMENT.fullmatch(words.pop(0))
        if assignment:
            env[assignment[1]] = assignment[2]
    if words and words[0] == "node":  # node --experimental-vm-modules node_modules/.bin/jest
        end = next((place for place, word in enumerate(words) if place and word[0] != "-"), 1)
        options = " ".join(filter(None, (env.get("NODE_OPTIONS", ""), *words[1:end])))
        env |= {"NODE_OPTIONS": options} if options else {}
        words = words[end:]
    name, *subcommand = program
    if not words or re.sub(r"\.[cm]?js$", "", words[0].rpartition("/")[2]) != name:
        return None
    args = words[1:]
    if subcommand and args[:1] == subcommand:
        args = args[1:]
    return ScriptCall(tuple(word for word in args if not ENDLESS[name].match(word)), env)
