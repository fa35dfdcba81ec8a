"""Recognition of the steps that run tests: a table of commands, and a scanner of shell words. Pure.

The scanner takes time linear in the script. It expands nothing and reads no file.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from ciguard.errors import InputError
from ciguard.workflow.matrix import combinations, fill
from ciguard.workflow.yaml_values import get, jobs_of, steps_of

PYTEST: Final = "pytest"
UNKNOWN: Final = ""  # tox, make, a script: any framework may run in it

# Framework -> first words of commands that run its tests; options between them are skipped.
_PROGRAMS: Final[Mapping[str, str]] = {
    PYTEST: "pytest, py.test, hatch test, spin test",
    UNKNOWN: "tox, nox",
    "unittest": "unittest",
    "trial": "trial",
    "nose": "nosetests",
    "npm": "npm test, npm t",
    "yarn": "yarn test",
    "pnpm": "pnpm test",
    "bun": "bun test",
    "jest": "jest",
    "vitest": "vitest",
    "mocha": "mocha",
    "playwright": "playwright test",
    "go test": "go test, gotestsum, richgo test",
    "dotnet test": "dotnet test",
    "ctest": "ctest",
    "cargo test": "cargo test",
    "cargo nextest": "cargo nextest run",
    "rspec": "rspec",
    "rake": "rake test",
    "rails": "rails test",
    "maven": "mvn test, mvn verify, mvnw test, mvnw verify",
    "gradle": "gradle test, gradle check, gradlew test, gradlew check",
    "phpunit": "phpunit",
    "swift test": "swift test",
    "mix": "mix test",
    "bazel": "bazel test",
}
TEST_COMMANDS: Final[Mapping[tuple[str, ...], str]] = {
    tuple(words.split()): framework
    for framework, commands in _PROGRAMS.items()
    for words in commands.split(", ")
}
# Framework -> command that lists the tests of a simple project.
LIST_COMMANDS: Final[Mapping[str, str]] = {
    PYTEST: "python -m pytest --collect-only -q",
    "dotnet test": "dotnet test --list-tests",
    "go test": "go test -list . ./...",
    "jest": "npx jest --listTests",
}
# With one of these options, a test command only lists tests or prints a text.
_RUNS_NOTHING: Final = frozenset(
    {"--version", "--help", "--fixtures", "--collect-only", "--co", "--list-tests", "--listTests"}
    | {"-list", "--list"}
)
# Programs that run a task of the project by its name.
TASK_RUNNERS: Final = frozenset(
    {"make", "gmake", "just", "task", "invoke", "inv", "poe", "npm", "yarn", "pnpm", "bun", "hatch"}
    | {"pdm", "pixi", "rye"}
)
# Programs that run the command in their arguments -> the word before the command, or "".
_ANY_COMMAND: Final = (
    "env time timeout nice exec command xvfb-run uvx npx bunx if then else do while until ! { "
    "retry dbus-run-session catchsegv stdbuf unbuffer sudo taskset numactl cross-env c8 nyc"
)
_RUN: Final = "uv poetry pdm pipenv hatch pixi rye conda mamba micromamba pipx coverage"
WRAPPERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_ANY_COMMAND.split(), ""),
    **dict.fromkeys(_RUN.split(), "run"),
    **dict.fromkeys(("bundle", "pnpm", "npm", "yarn"), "exec"),
}
# Programs that run tasks of a file in the top folder -> the file.
_TASK_FILES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("make", "gmake"), "Makefile"),
    **dict.fromkeys(("npm", "yarn", "pnpm", "bun"), "package.json"),
}
_JAVASCRIPT: Final = frozenset({"node", "deno", "bun"})
# After a file, `--test` is an argument of that file.
NODE_RUNNER: Final = re.compile(
    r"\b(node|tsx)(?: (?:--import|--require|-r|--loader|--env-file) \S+| -\S+)*? --test(?![\w=-])"
)
_CHANGES_FOLDER: Final = re.compile(r"\bcd[ \t]|working-directory")
_MAX_CALLS: Final = 5  # of a script by a script
# Programs that do not pass variables of the job to their commands.
DROP_VARIABLES: Final = frozenset({"docker", "docker-compose", "podman", "sudo", "ssh"})
SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash", "source", "."})
SCRIPT_SUFFIXES: Final = frozenset({"sh", "bash", "py"})
_PYTHON: Final = re.compile(r"(python|pypy)[0-9.]*t?(\.exe)?|\$\{?PYTHON\}?", re.IGNORECASE)
_TEST_WORDS: Final = frozenset({"test", "tests", "unittest", "unittests", "pytest", "runtests"})
_OTHER: Final = (
    "lint install deps dependencies requirements setup build prepare env size docs doc mypy "
    "type types typing typecheck format fmt style download upload report flake8 black "
    "package data compile release pre post clean fixtures images image lock publish start "
    "stop up docset vendoring changelog missing fetcher extract typechecking ruff pylint "
    "twinecheck pyright isort bandit codespell linters linting"
)
_OTHER_WORDS: Final = frozenset(_OTHER.split())
_FOLDER_OPTIONS: Final = frozenset(
    {"-C", "-f", "--directory", "--file", "--prefix", "--cwd", "-w", "--manifest-path"}
    | {"--workspace", "--workspaces", "--filter"}
)
# Actions that run a command -> the input with the command.
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
# A list of arguments, `args=(-q)` or `$args += @('-q')`, and a continued line of PowerShell.
LIST: Final = re.compile(
    r"^[ \t]*\$?(\w+)[ \t]*(\+?)=[ \t]*@?\(((?:'[^']*'|\"[^\"]*\"|#.*|[^)'\"#])*)\)", re.M
)
_CONTINUATION: Final = re.compile(r"`(\r?\n)")
# A rule of a Makefile with its recipe.
RULE: Final = re.compile(r"^([\w.-]+) *:(?!=).*\n((?:\t.*(?:\n|\Z))+)", re.MULTILINE)
_TOXENV: Final = re.compile(r"'TOX_?ENV': '([^'$]+)'")  # in the text of a mapping
_TEST_FILE: Final = re.compile(r"[^*?{\[]*(?:test|spec)[^/*?{\[]*\.(?:[cm]?[jt]sx?|py|rb)", re.I)
_TOP: Final = re.compile(r"^(?:\./|<rootDir>/)")
# An option whose value may be a path, but is no test file.
_HAS_VALUE: Final = re.compile(r"-(?!-(?:test|\w*match|runTestsByPath|run|ci|coverage)$)", re.I)
_PATH: Final = re.compile(r"(?!-|.*node_modules/)(?:.*/|.*\.(?:[cm]?[jt]sx?|py|rb)$)")
# Words of paths and artifacts that hold results of tests, or their coverage.
RESULTS: Final = re.compile(
    r"junit|\.trx\b|\btests?[-_ ]?(results?|reports?|output)|\breports?/tests?\b|surefire|allure"
    r"|playwright-report|\b(pytest|results?|report)[\w.-]*\.xml|^(\./)?results(?!\.sarif)",
    re.I | re.M,
)
COVERAGE: Final = re.compile(r"coverage|\bcov\b|lcov|cobertura|jacoco", re.I)
MAX_WORDS: Final = 50  # of a command: wrappers may be nested
# The quotes in an expression are not those of the shell, which sees its value.
_LEXEME: Final = re.compile(
    r"(?P<verbatim>\$\{\{.*?(?:\}\}|\Z)|\$\(\w+\)|[^\s;&|()'\"`\\#$]+)"
    r"|'(?P<single>(?:\$\{\{.*?\}\}|[^'])*)'?"
    r"|\"(?P<double>(?:\$\{\{.*?\}\}|\\.?|[^\"\\])*)\"?"
    r"|`(?P<back>(?:\$\{\{.*?\}\}|\\.?|[^`\\])*)`?"
    r"|(?P<comment>(?<![^\s;&|()])(?<!(?<!\\)\\[^\r\n])#[^\n]*|\\(?:\r\n|[\r\n]))"
    r"|\\(?P<escaped>.?)"
    r"|(?P<operator>[;&|()\n])|(?P<blank>\s)|(?P<other>.)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class FoundCommand:
    """A command that runs tests.

    Attributes:
        words: as in the script.
        framework: "" if any framework may run the tests.
        drops_variables: variables of the job do not reach the tests, as in `docker run`.
        arguments: words of the command that runs the tests, which may be in a task.
        place: FILE:LINE of these words if they are in a Makefile; otherwise "".
    """

    words: str
    framework: str
    drops_variables: bool = False
    arguments: tuple[str, ...] = ()
    place: str = ""


# Test commands, at most 2, of tasks by their file and name.
Tasks: TypeAlias = "Mapping[tuple[str, str], Sequence[FoundCommand]]"
NO_TASKS: Final[Tasks] = {}
NO_VALUES: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class FoundStep:
    """A step with test commands; `number` is its position in the job, from 1."""

    job: str
    number: int
    commands: tuple[FoundCommand, ...]


def read_tasks(read: Callable[[str], str]) -> Tasks:
    """Read the tasks of a project that run tests, also those that call other tasks.

    Args:
        read: returns the text of a file in the top folder; "" for none.
    """
    makefile = read("Makefile").replace("\t@", "\t")
    rules = {("Makefile", rule[1]): rule for rule in RULE.finditer(makefile)}
    scripts = package_scripts(read("package.json"))
    texts = {task: rule[2] for task, rule in rules.items()}
    texts |= {("package.json", name): script for name, script in scripts.items()}
    tasks: dict[tuple[str, str], Sequence[FoundCommand]] = {}
    for _ in range(_MAX_CALLS):
        tasks = {task: find_test_commands(text, tasks)[:2] for task, text in texts.items()}
        for task, rule in rules.items():
            tasks[task] = [_placed(item, makefile, rule) for item in tasks[task]]
    # What a shell script of a package runs is known by the package's dependencies.
    return {
        (file, name): [
            replace(item, framework="npm")
            if (file, item.framework) == ("package.json", UNKNOWN)
            else item
            for item in commands
        ]
        for (file, name), commands in tasks.items()
    }


def _placed(command: FoundCommand, makefile: str, rule: re.Match[str]) -> FoundCommand:
    """Return a command of a rule of a Makefile with the line that has its first words."""
    first = " ".join(command.words.split()[:2])
    at = max(makefile.find(first, rule.start(2), rule.end()), rule.start(2))
    place = command.place or f"Makefile:{makefile.count(chr(10), 0, at) + 1}"
    return replace(command, place=place)


def package_scripts(package_json: str) -> dict[str, str]:
    """Return the scripts of a package.json; none if it is malformed."""
    try:
        scripts = json.loads(package_json)["scripts"].items()
    except (ValueError, RecursionError, AttributeError, TypeError, LookupError):
        return {}
    return {name: str(text) for name, text in scripts}


def find_test_steps(workflow: Any, tasks: Tasks = NO_TASKS) -> tuple[FoundStep, ...]:
    """Find the steps whose script, or a task that it calls, runs tests, in order of the file."""
    return tuple(
        FoundStep(str(name), number, commands)
        for name, job in jobs_of(workflow).items()
        for number, step in steps_of(job)
        if (commands := _find_commands(step, job, tasks))
        and not (commands[0].framework == UNKNOWN and _has_other_environments(job))
    )


def _has_other_environments(job: Any) -> bool:
    """Return whether TOXENV, also of the matrix, names only environments without tests."""
    names = [name for text in _TOXENV.findall(str(job)) for name in text.split(",")]
    return bool(names) and all(map(is_other_environment, names))


def _find_commands(step: Mapping[str, Any], job: Any, tasks: Tasks) -> tuple[FoundCommand, ...]:
    """Find test commands; a task `${{ matrix.task }}` has the value of the first combination."""
    script, values = step_script(step), NO_VALUES
    if _CHANGES_FOLDER.search(f"{script}\n{step.keys()}{get(job, 'defaults')}"):
        tasks = NO_TASKS  # those of another folder
    if "matrix." in script:
        with contextlib.suppress(InputError):
            values = combinations(get(get(job, "strategy"), "matrix"))[0].values
    return find_test_commands(expand_lists(script), tasks, values)


def without_retry(script: str) -> str:
    """Remove further runs of a command from its line, as in `pytest || pytest --last-failed`."""
    return "\n".join(map(_without_repetitions, script.split("\n")))


def _without_repetitions(line: str) -> str:
    """Return a line without the commands that have the program and all words of the first."""
    first, *others = line.split("||")
    wanted = first.split()

    def repeats(text: str) -> bool:
        words = text.split()
        is_other = not words or re.search(r"[;&]|\binstall\b", text)
        return not is_other and words[:1] == wanted[:1] and {*wanted} <= {*words}

    rest = list(itertools.dropwhile(repeats, others))
    return line if rest == others else "||".join((first, *rest)).rstrip()


def expand_lists(script: str) -> str:
    """Insert the lists of arguments of bash and PowerShell where a command uses them.

    Computed elements stay as they are; elements that a condition adds count as added.
    """
    script = _CONTINUATION.sub(r"\\\1", script)
    lists: dict[str, list[str]] = {}
    for match in LIST.finditer(script) if "@" in script else ():
        lists[match[1]] = [*(lists.get(match[1], ()) if match[2] else ()), *list_items(match[3])]
    if not lists:
        return script
    names = "|".join(map(re.escape, lists))
    use = re.compile(rf"\"?\$\{{({names})\[@\]\}}\"?|(?<=\s)@({names})\b")
    return use.sub(lambda match: shlex.join(lists[match[1] or match[2]]), LIST.sub("", script))


def list_items(text: str) -> list[str]:
    """Return the elements of a list in a script: words with commas or blanks between them."""
    words = [word for line in split_commands(text) for word in line]
    return [word.rstrip(",") for word in words if word != ","]


def only_file(commands: Sequence[FoundCommand], tracked: Sequence[str]) -> str:
    """Return the tracked test file that is the only path among the arguments of commands; or ""."""
    words = (pair for item in commands for pair in itertools.pairwise(item.arguments))
    paths = [pair for pair in words if _PATH.match(pair[1])]
    files = {_TOP.sub("", path) for option, path in paths if not _HAS_VALUE.match(option)}
    file = files.pop() if len(paths) == len(commands) and len(files) == 1 else ""
    is_one = [path for path in tracked if file in path] == [file]  # Jest's words are patterns
    return file if is_one and _TEST_FILE.fullmatch(file) else ""


def step_script(step: Mapping[str, Any]) -> str:
    """Return the script of a step, also from the input of an action that runs commands; or ""."""
    inputs = step.get("with")
    key = COMMAND_INPUTS.get(action_of(step))
    script = inputs.get(key) if key and isinstance(inputs, dict) else step.get("run")
    return script if isinstance(script, str) else ""


def action_of(step: Mapping[str, Any]) -> str:
    """Return the action that a step uses, without its version; "" for none."""
    uses = step.get("uses")
    return uses.partition("@")[0] if isinstance(uses, str) else ""


def find_test_commands(
    script: str, tasks: Tasks = NO_TASKS, values: Mapping[str, Any] = NO_VALUES
) -> tuple[FoundCommand, ...]:
    """Find the commands of a script that run tests.

    Args:
        values: of a combination of the matrix.
    """
    commands: list[FoundCommand] = []
    for line in split_commands(without_retry(script)):
        words = line[:MAX_WORDS]
        filled = [fill(word, values) for word in words] if values else words
        found = _test_commands(filled, tasks) or _test_commands(words, tasks)
        for item in found:
            own = item.arguments == tuple(filled)
            arguments = tuple(words) if own else item.arguments
            shown = words if len(found) == 1 else arguments
            commands.append(replace(item, words=" ".join(shown), arguments=arguments))
    return tuple(commands)


def _test_commands(words: Sequence[str], tasks: Tasks) -> tuple[FoundCommand, ...]:
    """Return the test commands of the task that a command calls, or the command if it is one."""
    at = next((at for at, word in enumerate(words) if word in _TASK_FILES), len(words))
    called = [word for word in words[at + 1 :] if word not in {"run", "run-script"}]
    found = tasks.get((_TASK_FILES[words[at]], called[0]), ()) if called else ()
    start = test_command((*words[:at], PYTEST))  # None if these words start no command
    if found and start and not _FOLDER_OPTIONS.intersection(called):
        drops, is_script = start.drops_variables, _TASK_FILES[words[at]] == "package.json"
        added = [word for word in called[1:] if is_script and word != "--"]
        found = [replace(item, arguments=(*item.arguments, *added)) for item in found]
        return tuple(replace(item, drops_variables=drops or item.drops_variables) for item in found)
    command = test_command(words)
    return (command,) if command else ()


def test_command(words: Sequence[str]) -> FoundCommand | None:
    """Return the test command of the words of one command; None if it runs no test."""
    drops = [word for word in words if _program(word) in DROP_VARIABLES]
    drops += [words[0]] if list(words[:2]) == ["env", "-i"] else []
    text = " ".join(words)
    if drops:
        # The options of these programs are not known: any later word may begin the command.
        for start in range(1, len(words)):
            framework = _framework(words[start:])
            if framework is not None:
                return FoundCommand(text, framework, drops_variables=True, arguments=tuple(words))
        return None
    framework = _framework(words)
    return None if framework is None else FoundCommand(text, framework, arguments=tuple(words))


def _framework(words: Sequence[str]) -> str | None:
    start = 0
    while start < len(words) and is_assignment(words[start]):
        start += 1
    words = words[start:]
    if not words:
        return None
    program, arguments = _program(words[0]), words[1:]
    if any(word.startswith("--gtest_filter") for word in arguments):
        return "gtest"
    if _PYTHON.fullmatch(program):
        return _python_framework(arguments)
    for pattern, framework in TEST_COMMANDS.items():
        if program == pattern[0] and _leads(arguments, pattern[1:]):
            return None if _is_other_session(program, arguments) else framework
    if program in WRAPPERS and (wrapped := _wrapped_framework(program, arguments)) is not None:
        return wrapped
    if program in _JAVASCRIPT:
        for at, word in enumerate(arguments):
            if "node_modules/" in word and not word.startswith("-"):
                return _framework([_program(word).partition(".")[0], *arguments[at + 1 :]])
    if program in {"yarn", "pnpm"} and (package := _framework(arguments)) is not None:
        return package
    if program in TASK_RUNNERS and _has_test_task(program, arguments):
        scripts = {"npm": "npm", "yarn": "yarn", "pnpm": "pnpm", "bun": "bun run"}
        return scripts.get(program, UNKNOWN)
    if NODE_RUNNER.match(" ".join((program, *arguments))):
        return "node --test"
    if program in SHELLS:
        return _shell_framework(arguments)
    return UNKNOWN if _is_test_script(words[0]) else None


def _python_framework(arguments: Sequence[str]) -> str | None:
    """Return the framework of the arguments of `python`: `-m module`, or a script."""
    for position, word in enumerate(arguments):
        if word == "-m":
            return _framework(arguments[position + 1 :])
        if not word.startswith("-") and arguments[position - 1 : position] not in (["-X"], ["-W"]):
            return UNKNOWN if _is_test_script(word) else None
    return None


def _wrapped_framework(program: str, arguments: Sequence[str]) -> str | None:
    """Return the framework of a wrapped command, the first argument or one after an option."""
    verb, position = WRAPPERS[program], 0
    if verb:
        plain = [at for at, word in enumerate(arguments) if not word.startswith("-")]
        if not plain or arguments[plain[0]] != verb:
            return None
        position = plain[0] + 1
    after_option = True
    for start in range(position, len(arguments)):
        word = arguments[start]
        if word.startswith("-") or is_assignment(word) or word[:1].isdigit():
            after_option = True
        elif after_option:
            framework = _framework(arguments[start:])
            if framework is not None:
                return framework
            after_option = start > position and arguments[start - 1].startswith("-")
        else:
            return None
    return None


def _shell_framework(arguments: Sequence[str]) -> str | None:
    """Return the framework of the arguments of `bash`: `-c "commands"`, or a script."""
    for position, word in enumerate(arguments):
        if word.startswith("-") and word.endswith("c") and not word.startswith("--"):
            inner = find_test_commands("".join(arguments[position + 1 : position + 2]))
            return inner[0].framework if inner else None
        if not word.startswith("-"):
            return UNKNOWN if _is_test_script(word) else None
    return None


def _leads(words: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether the words that are no options begin with a pattern, and tests run."""
    if _RUNS_NOTHING.intersection(words):
        return False
    plain = [word for word in words if not word.startswith(("-", "+"))]
    return list(plain[: len(pattern)]) == list(pattern)


def _is_other_session(program: str, arguments: Sequence[str]) -> bool:
    """Return whether tox or nox runs only environments without tests, as `tox -e lint`."""
    if program not in {"tox", "nox"}:
        return False
    arguments = " ".join(("", *arguments, "")).partition(" -- ")[0].split()  # then of the tests
    other = {"-l", "--list", "devenv", "config", "list", "--install-only", "--notest", "-n"}
    if other.intersection(arguments):
        return True
    options = ("-e", "-f", "-s", "--session", "--sessions", "-t", "--tags")
    names = [arguments[at + 1] for at, word in enumerate(arguments[:-1]) if word in options]
    names += [word.partition("=")[2] for word in arguments if word.startswith(("--session", "-e="))]
    parts = [name for text in names for name in text.split(",") if name]
    return bool(parts) and all(map(is_other_environment, parts))


def is_other_environment(name: str) -> bool:
    """Return whether the name of a tox environment or nox session is not of tests: `docs`."""
    return bool(_OTHER_WORDS.intersection(_name_parts(name)))


def _has_test_task(program: str, words: Sequence[str]) -> bool:
    """Return whether a task runner runs a test task: the first word that is no option or value.

    The word after an option may be its value or the task, except for options of a file or folder.
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
    """Return whether the name of a task or file suggests tests: `test-unit`, not `test-deps`."""
    parts = _name_parts(name)
    return bool(_TEST_WORDS.intersection(parts)) and not _OTHER_WORDS.intersection(parts)


def _name_parts(name: str) -> list[str]:
    return re.split(r"[-_.:/]", name.lower())


def _is_test_script(word: str) -> bool:
    """Return whether a word is a file of the repository whose name suggests tests."""
    stem, dot, suffix = _program(word).rpartition(".")
    is_file = suffix in SCRIPT_SUFFIXES if dot else "/" in word
    return is_file and "://" not in word and is_test_name(stem or suffix)


def _program(word: str) -> str:
    return word.rpartition("/")[2]


def is_assignment(word: str) -> bool:
    return re.match(r"[A-Za-z_]\w*=", word) is not None


def split_commands(script: str) -> Iterator[list[str]]:
    """Yield the words of each simple command of a shell script, unquoted.

    An expression `${{ }}` is a part of its word, also with blanks and quotes in it.
    """
    for _, words in split_list(script):
        yield words


def split_list(script: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (operators, words) of each command; the operators before it are `||`, `&&`, `;\n`."""
    operators, word = "", None
    words: list[str] = []
    for match in _LEXEME.finditer(script):
        kind = str(match.lastgroup)
        if kind in ("blank", "operator"):
            words += [] if word is None else [word]
            word = None
        if kind == "operator":
            if words:
                yield operators, words
                words, operators = [], ""
            operators += match[0]
        elif kind not in ("blank", "comment"):
            word = (word or "") + match[kind]
    words += [] if word is None else [word]
    if words:
        yield operators, words
