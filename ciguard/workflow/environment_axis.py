"""Refusal of test steps in which tox or nox may run several environments or sessions. Pure.

ciguard would run the tests once for each; as an axis of the matrix, each is a combination.
"""

from __future__ import annotations

import posixpath
import re
from typing import Final, NamedTuple

from ciguard.workflow.movable_job import MovableJob, NotMovable, shorten
from ciguard.workflow.test_commands import UNKNOWN


class Tool(NamedTuple):
    """A program that runs several environments or sessions.

    Attributes:
        option: selects environments by their names.
        selecting: prefixes of all options that select environments.
        several: options that may select several; expressions of the workflow are one "$".
        variables: environment variables that select environments.
    """

    name: str
    axis: str
    option: str
    selecting: tuple[str, ...]
    several: re.Pattern[str]
    variables: tuple[str, ...]


TOOLS: Final = (
    Tool(
        name="tox",
        axis="tox_env",
        option="-e",
        selecting=("-e", "-m", "-f"),
        several=re.compile(r"(?:^| )(?:-e ?\S*,|-e .* -e )"),
        variables=("TOXENV", "TOX_ENV"),
    ),
    Tool(
        name="nox",
        axis="nox_session",
        option="-s",
        selecting=("-s", "-e", "-t", "-k", "-p", "--session", "--tags", "--keywords", "--python"),
        several=re.compile(
            r"(?:^| )(?:-[se]|--sessions?)[ =]?\S+ [^-\s]"
            r"|^(?!.*(?:^| )(?:-[se]|--session)).*(?:^| )(?:-[ptk]|--pythons?|--tags|--keywords)\b"
        ),
        variables=("NOXSESSION", "NOXPYTHON"),
    ),
)


def reject_several_environments(job: MovableJob) -> None:
    """Refuse a command that may run several environments, as it does without a selection.

    Raises:
        NotMovable: the tests would run once for each environment.
    """
    variables = f"{job.workflow.get('env')}{job.value}"
    for command in job.commands:
        words = [posixpath.basename(word) for word in command.arguments]
        for tool in TOOLS if command.framework == UNKNOWN else ():
            if tool.name not in words:
                continue
            options = command.arguments[words.index(tool.name) + 1 :]
            options = options[: options.index("--")] if "--" in options else options
            text = re.sub(r"\$\{\{.*?\}\}", "$", " ".join(options))
            is_selected = any(word.startswith(tool.selecting) for word in options)
            is_selected = is_selected or any(name in variables for name in tool.variables)
            if tool.several.search(text) or not is_selected:
                what = f"the step may run the tests several times: {shorten(command.words)}"
                value = f"{tool.option} ${{{{ matrix.{tool.axis} }}}}"
                axis = (
                    f"`{tool.axis}: [...]` below `matrix:`, with names of tests in `{tool.name} -l`"
                )
                fix = f"write {axis}, and run {tool.name} {value}"
                raise NotMovable(what, where=job.where, fix=fix)
