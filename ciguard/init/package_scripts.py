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

from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.S)
# Before the program: a shard covers a part of the code, so that it is not called with coverage.
COVERAGE: Final = ("c8", "nyc")
WRAPPERS: Final = ("cross-env", "env", "npx", "node", *COVERAGE)
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
        program: its name, and the word for a run behind it: `vitest run`; () for none.

    Raises:
        InputError: only a shell, or an unknown wrapper, can tell the program's arguments.
    """
    unread = ""
    for name, script in _test_scripts(text) if program else ():
        for part in SEPARATOR.split(script):
            try:
                found = _call(part, program)
            except ValueError:
                unread = unread or f"scripts.{name}: {part.strip()}"
                continue
            if found is not None:
                return found
    if unread:
        what = f"its arguments of {program[0]} cannot be read from {unread}"
        fix = f"configure a suite in ciguard.toml: framework = {json.dumps(program[0])}, and args"
        raise InputError(what, where="package.json", fix=f"{fix}; then run ciguard init again")
    return ScriptCall()


def _test_scripts(text: str) -> Iterator[tuple[str, str]]:
    """`test` first, then `test:unit` and its like in the order of the file."""
    try:
        scripts = json.loads(text).get("scripts", {})
        names = [name for name in scripts if name.startswith("test")]
    except (ValueError, AttributeError, TypeError):
        return
    for name in sorted(names, key=lambda name: name != "test"):
        yield name, str(scripts[name])


def _call(part: str, program: Sequence[str]) -> ScriptCall | None:
    """The call of a program in a command; None where the command is none.

    Raises:
        ValueError: what calls it, or a part of its arguments, is not known.
    """
    name, *subcommand = program
    if not any(_calls(word, name) for word in part.split()):
        return None
    words = shlex.split(part)
    at = next((at for at, word in enumerate(words) if _calls(word, name)), len(words))
    env: dict[str, str] = {}
    wrapper, node_options = "", []
    for word in words[:at]:
        if word in WRAPPERS:
            wrapper = word
        elif assignment := ASSIGNMENT.fullmatch(word):
            env[assignment[1]] = assignment[2]
        elif wrapper == "node":  # node --experimental-vm-modules node_modules/.bin/jest
            node_options.append(word)
        elif wrapper not in COVERAGE:
            raise ValueError(word)
    if SHELL.search(part):
        raise ValueError(part)
    if node_options:
        env["NODE_OPTIONS"] = " ".join(filter(None, (env.get("NODE_OPTIONS", ""), *node_options)))
    args = words[at + 1 :]
    if subcommand and args[:1] == subcommand:
        args = args[1:]
    return ScriptCall(tuple(word for word in args if not ENDLESS[name].match(word)), env)


def _calls(word: str, name: str) -> bool:
    """Say whether a word is the program, or its file: `node_modules/mocha/bin/_mocha.js`."""
    return re.sub(r"^_|\.[cm]?js$", "", word.rpartition("/")[2]) == name
