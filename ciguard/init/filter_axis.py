"""The axis of a matrix whose values are filters of the test command, for removal. Pure.

The command gets the union of the filters: exclusions around them stay. In names and output, the
shard takes the place of the axis.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import yaml

from ciguard.audit.filters.base import LANGUAGES
from ciguard.audit.filters.expression import Argument, terms
from ciguard.errors import InputError
from ciguard.init.other_tools import first_of
from ciguard.text import count_of
from ciguard.workflow.matrix import EXPRESSION, MATRIX_PATH, SHARD, text_of
from ciguard.workflow.movable_job import BY_HAND, MovableJob, NotMovable, load_ended, read_job
from ciguard.workflow.positions import Edit, SourceText, find_entry, is_block, is_comment
from ciguard.workflow.test_commands import LIST_COMMANDS, TASK_RUNNERS, expand_lists, split_commands
from ciguard.workflow.yaml_values import load

# Options of a filter -> text between filters of which each may select a test.
UNIONS: Final = {
    **dict.fromkeys(("-k", "-m"), " or "),
    **dict.fromkeys(("--filter", "--grep", "-g", "-t", "--testNamePattern"), "|"),
    **dict.fromkeys(("--testPathPattern", "--testPathPatterns"), "|"),
}
_PLACE: Final = "ciguard_filter"  # a word of each filter language
_OPERATOR: Final = re.compile(r"[\s|&()]")
_EXPRESSION: Final = re.compile(r"\$\{\{ *matrix\.[\w.-]+ *\}\}")
# Lines that show the value of an axis, and do nothing else with it.
_LABEL: Final = re.compile(r"^[ ]*(?:- +)?name:|\becho\b|\bWrite-(?:Host|Output)\b", re.M)
_ENTRIES: Final = ("include", "exclude")
_GLOB: Final = re.compile(r"[*?{\[$]")  # the shell expands it
# Keys by whose values GitHub runs a job elsewhere, or not at all.
_KEPT: Final = ("runs-on", "container", "services", "environment", "defaults")


@dataclass(frozen=True, slots=True)
class FilterAxis:
    """An axis of filters.

    Attributes:
        expression: of the filter in the command: `${{ matrix.shard.filter }}`.
        union: replaces it; for paths, the word around it.
        arguments: the words of the command with the union.
        is_path: the filters are words without an option: files and folders.
        values: of the axis.
        filters: as the command has each of them.
    """

    name: str
    expression: str
    union: str
    arguments: list[str]
    is_path: bool
    values: Sequence[Any]
    filters: Sequence[str]

    @property
    def use(self) -> re.Pattern[str]:
        return re.compile(rf"\bmatrix\.{re.escape(self.name)}(?![\w-])((?:\.[\w-]+)*)")


def find_filter_axis(job: MovableJob) -> FilterAxis | None:
    """Return the axis whose values are filters of the test command; None for no such axis.

    Raises:
        NotMovable: the union of the filters cannot be written into the command.
    """
    matrix = load(job.matrix, job.where) if job.matrix and job.commands and not job.take else {}
    script = expand_lists(job.value["steps"][job.step - 1]["run"])
    for expression in EXPRESSION.finditer(script):
        path = MATRIX_PATH.fullmatch(expression[1])
        name, *keys = path[1].strip(".").split(".") if path else [""]
        values = matrix.get(name)
        is_kept = any(f"matrix.{name}" in str(job.value.get(key)) for key in _KEPT)
        if name in _ENTRIES or not isinstance(values, list) or is_kept:
            continue
        filters = [_text(value, keys) for value in values]
        placed = [list(words) for words in split_commands(script.replace(expression[0], _PLACE))]
        for words in placed:
            at = next((at for at, word in enumerate(words) if _PLACE in word), 0)
            word = words[at]
            option = word.partition("=")[0] if word.startswith("-") and "=" in word else ""
            union = UNIONS.get(option or words[at - 1]) if at else None
            has_options = any(part.startswith("-") for value in filters for part in value.split())
            is_path = not (union or has_options) and _is_path(job.commands[0].framework, words)
            if len(set(filters)) > 1 and all(filters) and (union or is_path):
                text = _union(word.removeprefix(f"{option}="), filters, union)
                if text is None:
                    what = f"its filters are parts of a larger one: {expression[0]}"
                    fix = f"write ({expression[0]}), in parentheses, and run init again"
                    raise NotMovable(what, where=job.where, fix=fix)
                words[at : at + 1] = text.split() if is_path else [word.replace(_PLACE, text)]
                return FilterAxis(name, expression[0], text, words, is_path, values, filters)
    return None


def _text(value: Any, keys: Sequence[str]) -> str:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return text_of(value)


def _is_path(framework: str, words: Sequence[str]) -> bool:
    """Return whether a path among the arguments holds the place of the filter."""
    language = LANGUAGES.get(framework)
    at = next((at for at, word in enumerate(words) if _PLACE in word), 0)
    if framework == "dotnet test" and "--filter" not in words:  # PROJECT
        return "dotnet" in words[:at] and words[at] == _PLACE and not words[at - 1].startswith("-")
    if language is None:
        is_task = ":" in words[at] or {*words[:at]} <= TASK_RUNNERS | {"run"}  # `yarn test:PART`
        # An option of Jest may take every word up to the next one.
        has_option = any(word.startswith("-") for word in words[: at + 1])
        return framework == "jest" and not is_task and not has_option
    words = [EXPRESSION.sub("x", word) for word in words]
    try:
        found = [term.condition for term in terms(language.parse(language.find_filter(words), ""))]
    except InputError:
        return False
    arguments = [item for item in found if isinstance(item, Argument)]
    return any(item.kind == "path" and _PLACE in item.value for item in arguments)


def _union(word: str, filters: Sequence[str], union: str | None) -> str | None:
    """Return the text for the place of the filters in a word; None if precedence would change."""
    unique = dict.fromkeys(filters)
    if union is None:
        return " ".join(dict.fromkeys(word.replace(_PLACE, text) for text in unique))
    is_plain = not any(map(_OPERATOR.search, unique))
    joined = union.join(text if is_plain else f"({text})" for text in unique)
    if word == _PLACE or f"({_PLACE})" in word:
        return joined
    return f"({joined})" if is_plain else None


def without_filter_axis(
    job: MovableJob, path: str, files: Sequence[str]
) -> tuple[MovableJob, list[str]]:
    """Return the job without its axis of filters, and messages; the same job if an axis stays.

    An axis on which other commands or conditions depend is more than a filter, and stays.

    Args:
        path: of the workflow.
        files: of the repository that hold tests.

    Raises:
        NotMovable: the axis cannot be cut out of the matrix, or the command cannot be edited.
    """
    axis = find_filter_axis(job)
    if axis is None:
        return job, []
    source, entry = job.source, job.source.find("jobs", job.name)
    assert entry is not None
    count, edits, labels, others = len(axis.values), [_filter_edit(job, axis)], [], []
    for use in axis.use.finditer(source.text, entry.start, source.content_end(entry)):
        line = source.text.count("\n", 0, use.start()) + 1
        start, end = source.line_start(use.start()), source.line_end(use.start())
        expression = _EXPRESSION.match(source.text, source.text.rfind("${{", start, use.start()))
        values = {_text(value, use[1].split(".")[1:]) for value in axis.values}
        if is_comment(source.text[start:end]) or edits[0].start <= use.start() < edits[0].end:
            continue
        if expression is None or (len(values) > 1 and not _LABEL.search(source.text, start, end)):
            others.append(str(line))
            continue
        edits.append(Edit(*expression.span(), values.pop() if len(values) == 1 else SHARD))
        labels += [str(line)] if edits[-1].text == SHARD else []
    if others:
        what = f"the axis {axis.name} of {count} filters stays"
        used = f"{what}: lines {', '.join(others)} use it besides the filter"
        return job, [used, *_coverage(job, axis, path, files)]
    changed = read_job(source.edited(edits), path, job.name, str(job.step))
    messages = [f"the axis {axis.name} is gone; its {count} filters are one: {axis.union:.160}"]
    if labels:
        messages.append(f"lines {', '.join(labels)} of {path} get the shard in place of its value")
    matrix = _without_axis(job.matrix, axis, job.where)
    messages += _coverage(job, axis, path, files)
    return replace(changed, matrix=matrix, shards=count), messages


def matrix_without_filters(job: MovableJob) -> str:
    axis = find_filter_axis(job)
    return _without_axis(job.matrix, axis, job.where) if axis else job.matrix


def _filter_edit(job: MovableJob, axis: FilterAxis) -> Edit:
    """Replace the filter in the test command by the union, in quotes if the shell needs them."""
    run = job.source.find("jobs", job.name, "steps", job.step, "run")
    assert run is not None
    pattern = re.escape(axis.expression)
    if axis.is_path:
        pattern = rf"[\"']?[^\s\"']*{pattern}[^\s\"']*[\"']?"
    for match in re.compile(pattern).finditer(
        job.source.text, job.source.colon_end(run), job.source.content_end(run)
    ):
        for text in (axis.union, f'"{axis.union}"'):
            edit = Edit(match.start(), match.end(), text)
            changed = load_ended(job.source.edited([edit]), job.where)
            script = changed["jobs"][job.name]["steps"][job.step - 1]["run"]
            commands = list(split_commands(expand_lists(script)))
            if [axis.arguments] == [words for words in commands if words == axis.arguments]:
                return edit
    what = f"the union of its filters cannot be written into the command: {axis.union:.80}"
    raise NotMovable(what, where=job.where, fix=BY_HAND)


def _without_axis(matrix: str, axis: FilterAxis, where: str) -> str:
    """Cut the axis out of a matrix.

    Raises:
        NotMovable: include or exclude name the axis.
    """
    values = load(matrix, where)
    if any(axis.name in item for key in _ENTRIES for item in values.get(key, ())):
        what = f"include or exclude name the axis of filters {axis.name}"
        fix = f"take {axis.name} out of them, and run init again"
        raise NotMovable(what, where=f"{where}.strategy.matrix", fix=fix)
    if values.keys() == {axis.name}:
        return ""
    source = SourceText(matrix)
    entry = find_entry(source.root, axis.name)
    if entry and source.root and is_block(source.root, yaml.MappingNode):
        start = source.comments_before(entry.start, entry.column)
        return source.edited([Edit(start, source.next_line(source.content_end(entry)), "")])
    del values[axis.name]
    return yaml.safe_dump(values, sort_keys=False, default_flow_style=None, width=90)


def _coverage(job: MovableJob, axis: FilterAxis, path: str, files: Sequence[str]) -> Iterator[str]:
    """Yield messages on tests in no filter and in several, as far as names of files show them."""
    framework = job.commands[0].framework
    if framework not in LANGUAGES or (axis.is_path and _GLOB.search(" ".join(axis.filters))):
        return
    if axis.is_path:
        folders = [tuple(f"{word.rstrip('/')}/" for word in text.split()) for text in axis.filters]
        counts = {name: sum(f"{name}/".startswith(of) for of in folders) for name in files}
        groups = {"no filter": [name for name in files if not counts[name]]}
        groups["several filters"] = [name for name in files if counts[name] > 1]
        for what, found in groups.items():
            if found:
                yield f"{count_of(len(found), 'test file')} in {what}: {first_of(found)}"
    else:
        listing = LIST_COMMANDS.get(framework, "./list-tests.sh")
        target = f"ciguard audit --matrix {path}:{job.name} --tests -"
        yield f"tests in no filter or in several, before the move: {listing} | {target}"
