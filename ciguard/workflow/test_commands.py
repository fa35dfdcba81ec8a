"""Which steps of a workflow run tests: a table of commands, and a scanner of shell words. Pure.

The scanner takes time linear in the script. It expands nothing and reads no file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ciguard.workflow.yaml_values import jobs_of, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PYTEST: Final = "pytest"
UNKNOWN: Final = ""  # tox, make, a script: any framework may run in it

# The first words of a command that runs tests -> the framework. Options between words do not count.
TEST_COMMANDS: Final[Mapping[tuple[str, ...], str]] = {
    ("pytest",): PYTEST,
    ("py.test",): PYTEST,
    ("hatch", "test"): PYTEST,
    ("tox",): UNKNOWN,
    ("nox",): UNKNOWN,
    ("spin", "test"): PYTEST,
    ("unittest",): "unittest",
    ("trial",): "trial",
    ("nosetests",): "nose",
    ("npm", "test"): "npm",
    ("npm", "t"): "npm",
    ("yarn", "test"): "yarn",
    ("pnpm", "test"): "pnpm",
    ("bun", "test"): "bun",
    ("jest",): "jest",
    ("vitest",): "vitest",
    ("mocha",): "mocha",
    ("playwright", "test"): "playwright",
    ("go", "test"): "go test",
    ("gotestsum",): "go test",
    ("dotnet", "test"): "dotnet test",
    ("ctest",): "ctest",
    ("cargo", "test"): "cargo test",
    ("cargo", "nextest", "run"): "cargo nextest",
    ("rspec",): "rspec",
    ("rake", "test"): "rake",
    ("rails", "test"): "rails",
    ("mvn", "test"): "maven",
    ("mvn", "verify"): "maven",
    ("mvnw", "test"): "maven",
    ("mvnw", "verify"): "maven",
    ("gradle", "test"): "gradle",
    ("gradle", "check"): "gradle",
    ("gradlew", "test"): "gradle",
    ("gradlew", "check"): "gradle",
    ("phpunit",): "phpunit",
    ("swift", "test"): "swift test",
    ("mix", "test"): "mix",
    ("bazel", "test"): "bazel",
}
# By framework, a command that lists the tests, for a project that needs no more.
LIST_COMMANDS: Final[Mapping[str, str]] = {
    PYTEST: "python -m pytest --collect-only -q",
    "dotnet test": "dotnet test --list-tests",
    "go test": "go test -list . ./...",
    "jest": "npx jest --listTests",
}
# With one of these a test command lists tests or prints a text.
_RUNS_NOTHING: Final = frozenset(
    {"--version", "--help", "--fixtures", "--collect-only", "--co", "--list-tests", "--listTests"}
    | {"-list", "--list"}
)
# Programs that run a task of the project by its name.
TASK_RUNNERS: Final = frozenset(
    {"make", "gmake", "just", "task", "invoke", "inv", "poe", "npm", "yarn", "pnpm", "hatch", "pdm"}
    | {"pixi", "rye"}
)
# Programs that run the command in their arguments -> the word before it, if there is one.
_ANY_COMMAND: Final = (
    "env time timeout nice exec command xvfb-run uvx npx bunx if then else do while until ! { "
    "retry dbus-run-session catchsegv stdbuf unbuffer sudo taskset numactl"
)
_RUN: Final = "uv poetry pdm pipenv hatch pixi rye conda mamba micromamba pipx coverage"
WRAPPERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_ANY_COMMAND.split(), ""),
    **dict.fromkeys(_RUN.split(), "run"),
    **dict.fromkeys(("bundle", "pnpm", "npm", "yarn"), "exec"),
}
# Variables of the job do not reach what these run.
DROP_VARIABLES: Final = frozenset({"docker", "docker-compose", "podman", "sudo", "ssh"})
SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash", "source", "."})
SCRIPT_SUFFIXES: Final = frozenset({"sh", "bash", "py"})
_PYTHON: Final = re.compile(r"(python|pypy)[0-9.]*t?(\.exe)?|\$\{?PYTHON\}?", re.IGNORECASE)
_TEST_WORDS: Final = frozenset({"test", "tests", "unittest", "unittests", "pytest", "runtests"})
_OTHER_WORDS: Final = frozenset(
    {"lint", "install", "deps", "dependencies", "requirements", "setup", "build", "prepare", "env"}
    | {"docs", "doc", "mypy", "type", "types", "typing", "typecheck", "format", "fmt", "style"}
    | {"download", "upload", "report", "flake8", "black", "package", "data", "compile", "release"}
    | {"pre", "clean", "fixtures", "images", "image", "lock", "publish", "start", "stop", "up"}
    | {"docset", "vendoring", "changelog", "missing", "fetcher", "extract", "typechecking"}
    | {"ruff", "pylint", "pyright", "isort", "bandit", "codespell", "linters", "linting"}
)
_FOLDER_OPTIONS: Final = frozenset(
    {"-C", "-f", "--directory", "--file", "--prefix", "--cwd", "-w", "--manifest-path"}
)
# Actions that run a command -> the input that has it.
RETRY_ACTIONS: Final[Mapping[str, str]] = {
    "nick-fields/retry": "command",
    "nick-invision/retry": "command",
    "Wandalen/wretry.action": "command",
}
COMMAND_INPUTS: Final[Mapping[str, str]] = {
    **RETRY_ACTIONS,
    "GabrielBB/xvfb-action": "run",
    "coactions/setup-xvfb": "run",
}
# Rules of a Makefile with their recipes, and the call of one.
_RULE: Final = re.compile(r"^([\w.-]+) *:(?!=).*\n((?:\t.*(?:\n|\Z))+)", re.MULTILINE)
_MAKE: Final = re.compile(r"\bg?make +([\w.-]+)")
MAX_WORDS: Final = 50  # of a command: wrappers are tried one in the other
_OPERATORS: Final = ";&|()\n"


@dataclass(frozen=True, slots=True)
class FoundCommand:
    """A command that runs tests.

    Attributes:
        words: as the script has them.
        framework: what runs the tests; "" where any may.
        drops_variables: it runs where no variable of the job is, as in `docker run`.
    """

    words: str
    framework: str
    drops_variables: bool = False


@dataclass(frozen=True, slots=True)
class FoundStep:
    """A step with test commands.

    Attributes:
        number: in its job, from 1.
    """

    job: str
    number: int
    commands: tuple[FoundCommand, ...]


def find_test_steps(workflow: Any, makefile: str = "") -> tuple[FoundStep, ...]:
    """Every step whose script, or a recipe that it makes, runs tests, in the order of the file."""
    recipes = dict(_RULE.findall(makefile.replace("\t@", "\t")))

    def with_recipe(found: re.Match[str]) -> str:
        return f"{found[0]}\n{recipes.get(found[1], '')}\n"

    return tuple(
        FoundStep(str(name), number, commands)
        for name, job in jobs_of(workflow).items()
        for number, step in steps_of(job)
        if isinstance(step.get("run"), str)
        and (commands := find_test_commands(_MAKE.sub(with_recipe, step["run"])))
    )


def step_script(step: Mapping[str, Any]) -> str:
    """The script that a step runs, by itself or as the input of an action that runs commands."""
    inputs = step.get("with")
    key = COMMAND_INPUTS.get(action_of(step))
    script = inputs.get(key) if key and isinstance(inputs, dict) else step.get("run")
    return script if isinstance(script, str) else ""


def action_of(step: Mapping[str, Any]) -> str:
    """The action that a step uses, without its version; "" for none."""
    uses = step.get("uses")
    return uses.partition("@")[0] if isinstance(uses, str) else ""


def find_test_commands(script: str) -> tuple[FoundCommand, ...]:
    """The commands of a script that run tests."""
    found = []
    for words in split_commands(script):
        command = test_command(words[:MAX_WORDS])
        if command is not None:
            found.append(command)
    return tuple(found)


def test_command(words: Sequence[str]) -> FoundCommand | None:
    """What the words of one command run; None where they run no test."""
    drops = [word for word in words if _program(word) in DROP_VARIABLES]
    drops += [words[0]] if list(words[:2]) == ["env", "-i"] else []
    text = " ".join(words)
    if drops:
        # Whatever options come first: any later word may begin the command.
        for start in range(1, len(words)):
            framework = _framework(words[start:])
            if framework is not None:
                return FoundCommand(text, framework, drops_variables=True)
        return None
    framework = _framework(words)
    return None if framework is None else FoundCommand(text, framework)


def _framework(words: Sequence[str]) -> str | None:
    """The framework of a command; None of one that runs no test."""
    start = 0
    while start < len(words) and _is_assignment(words[start]):
        start += 1
    words = words[start:]
    if not words:
        return None
    program, rest = _program(words[0]), words[1:]
    if _PYTHON.fullmatch(program):
        return _python_framework(rest)
    for pattern, framework in TEST_COMMANDS.items():
        if program == pattern[0] and _leads(rest, pattern[1:]):
            return None if _is_other_session(program, rest) else framework
    if program in WRAPPERS and (found := _wrapped_framework(program, rest)) is not None:
        return found
    if program in TASK_RUNNERS and _has_test_task(program, rest):
        return program if program in {"npm", "yarn", "pnpm"} else UNKNOWN
    if program in SHELLS:
        return _shell_framework(rest)
    return UNKNOWN if _is_test_script(words[0]) else None


def _python_framework(rest: Sequence[str]) -> str | None:
    """Of the words after `python`."""
    for position, word in enumerate(rest):
        if word == "-m":
            return _framework(rest[position + 1 :])
        if not word.startswith("-") and rest[position - 1 : position] not in (["-X"], ["-W"]):
            return UNKNOWN if _is_test_script(word) else None
    return None


def _wrapped_framework(program: str, rest: Sequence[str]) -> str | None:
    """Of the words after a wrapper: the command is the first word, or stands after an option."""
    verb, position = WRAPPERS[program], 0
    if verb:
        plain = [at for at, word in enumerate(rest) if not word.startswith("-")]
        if not plain or rest[plain[0]] != verb:
            return None
        position = plain[0] + 1
    after_option = True
    for start in range(position, len(rest)):
        word = rest[start]
        if word.startswith("-") or _is_assignment(word) or word[:1].isdigit():
            after_option = True
        elif after_option:
            found = _framework(rest[start:])
            if found is not None:
                return found
            after_option = start > position and rest[start - 1].startswith("-")
        else:
            return None
    return None


def _shell_framework(rest: Sequence[str]) -> str | None:
    """Of the words after `bash`: `-c "commands"`, or a script."""
    for position, word in enumerate(rest):
        if word.startswith("-") and word.endswith("c") and not word.startswith("--"):
            inner = find_test_commands(rest[position + 1]) if position + 1 < len(rest) else ()
            return inner[0].framework if inner else None
        if not word.startswith("-"):
            return UNKNOWN if _is_test_script(word) else None
    return None


def _leads(words: Sequence[str], pattern: Sequence[str]) -> bool:
    """Say whether the words that are no options begin with a pattern, and something runs."""
    if _RUNS_NOTHING.intersection(words):
        return False
    plain = [word for word in words if not word.startswith(("-", "+"))]
    return list(plain[: len(pattern)]) == list(pattern)


def _is_other_session(program: str, rest: Sequence[str]) -> bool:
    """Say whether tox or nox runs only environments that are no tests, as `tox -e lint`."""
    if program not in {"tox", "nox"}:
        return False
    if {"-l", "--list", "devenv", "config", "list", "--install-only", "--notest"}.intersection(
        rest
    ):
        return True
    options = ("-e", "-f", "-s", "--session", "--sessions", "-t", "--tags")
    names = [rest[at + 1] for at, word in enumerate(rest[:-1]) if word in options]
    names += [word.partition("=")[2] for word in rest if word.startswith(("--session", "-e="))]
    parts = [name for text in names for name in text.split(",") if name]
    return bool(parts) and all(map(is_other_environment, parts))


def is_other_environment(name: str) -> bool:
    """Say whether an environment of tox or a session of nox is named as no test: `lint`, `docs`."""
    return bool(_OTHER_WORDS.intersection(_name_parts(name)))


def _has_test_task(program: str, words: Sequence[str]) -> bool:
    """Say whether the task is a test: the first word that is no option, or the one after its value.

    The value of an option that names a file or folder is no task.
    """
    after_option = False
    for position, word in enumerate(words):
        if word.startswith("-") or "=" in word or word in {"run", "run-script"} or word.isdigit():
            after_option = word.startswith("-")
            continue
        if after_option and words[position - 1] in _FOLDER_OPTIONS:
            after_option = False
            continue
        if is_test_name(word) or (program, word) == ("make", "check"):
            return True
        if not after_option:
            return False
        after_option = False
    return False


def is_test_name(name: str) -> bool:
    """Say whether a task or file is named as one that runs tests: `test-unit`, not `test-deps`."""
    parts = _name_parts(name)
    return bool(_TEST_WORDS.intersection(parts)) and not _OTHER_WORDS.intersection(parts)


def _name_parts(name: str) -> list[str]:
    return re.split(r"[-_.:/]", name.lower())


def _is_test_script(word: str) -> bool:
    """Say whether it is a file of the repository that is named as one that runs tests."""
    stem, dot, suffix = _program(word).rpartition(".")
    is_file = suffix in SCRIPT_SUFFIXES if dot else "/" in word
    return is_file and "://" not in word and is_test_name(stem or suffix)


def _program(word: str) -> str:
    return word.rpartition("/")[2]


def _is_assignment(word: str) -> bool:
    return re.match(r"[A-Za-z_]\w*=", word) is not None


def split_commands(script: str) -> Iterator[list[str]]:
    """The words of each simple command of a shell script, unquoted.

    An expression `${{ }}` is a part of its word, whatever stands in it.
    """
    for _, words in split_list(script):
        yield words


def split_list(script: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of `split_commands`, each after the operators before it: `||`, `&&`, `;\n`."""
    operators = ""
    words: list[str] = []
    word: list[str] = []
    in_word = False
    at = 0
    while at < len(script):
        char = script[at]
        if script.startswith("${{", at):
            end = script.find("}}", at)
            end = len(script) if end < 0 else end + 2
            word.append(script[at:end])
            in_word, at = True, end
        elif char in "'\"`":
            end = _closing_quote(script, at)
            word.append(script[at + 1 : end])
            in_word, at = True, end + 1
        elif char == "\\":
            if script[at + 1 : at + 2] not in ("\n", "\r"):
                word.append(script[at + 1 : at + 2])
                in_word = True
            at += 3 if script.startswith("\r\n", at + 1) else 2
        elif char == "#" and not in_word:
            end = script.find("\n", at)
            at = len(script) if end < 0 else end
        elif char.isspace() or char in _OPERATORS:
            if in_word:
                words.append("".join(word))
            word, in_word, at = [], False, at + 1
            if char in _OPERATORS:
                if words:
                    yield operators, words
                    words, operators = [], ""
                operators += char
        else:
            word.append(char)
            in_word, at = True, at + 1
    if in_word:
        words.append("".join(word))
    if words:
        yield operators, words


def _closing_quote(script: str, start: int) -> int:
    quote, at = script[start], start + 1
    while at < len(script) and script[at] != quote:
        if script.startswith("${{", at) and "}}" in script[at:]:
            at = script.index("}}", at) + 2  # filled in before the shell sees it
        else:
            at += 2 if script[at] == "\\" and quote != "'" else 1
    return min(at, len(script))
