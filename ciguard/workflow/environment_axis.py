"""Refusal of test steps in which tox or nox may run several environments or sessions. Pure.

ciguard would run the tests once for each; as an axis of the matrix, each is a combination.
"""

from __future__ import annotations

import posixpath
import re
from typing import Final

from ciguard.workflow.movable_job import MovableJob, NotMovable, shorten
from ciguard.workflow.test_commands import UNKNOWN

# Program -> variables and prefixes of options that select environments or sessions, options that
# may select several (expressions of the workflow are one "$"), and the selection by an axis.
TOOLS: Final = {
    "tox": (
        ("TOXENV", "TOX_ENV"),
        ("-e", "-m", "-f"),
        re.compile(r"(?:^| )(?:-e ?\S*,|-e .* -e )"),
        ("-e", "tox_env"),
    ),
    "nox": (
        ("NOXSESSION", "NOXPYTHON"),
        ("-s", "-e", "-t", "-k", "-p", "--session", "--tags", "--keywords", "--python"),
        re.compile(
            r"(?:^| )(?:-[se]|--sessions?)[ =]?\S+ [^-\s]"
            r"|^(?!.*(?:^| )(?:-[se]|--session)).*(?:^| )(?:-[ptk]|--pythons?|--tags|--keywords)\b"
        ),
        ("-s", "nox_session"),
    ),
}


def reject_several_environments(job: MovableJob) -> None:
    """Refuse a command that may run several environments, as it does without a selection.

    Raises:
        NotMovable: the tests would run once for each environment.
    """
    environment = f"{job.workflow.get('env')}{job.value}"
    for command in job.commands:
        words = [posixpath.basename(word) for word in command.arguments]
        for tool in {*words}.intersection(TOOLS) if command.framework == UNKNOWN else ():
            variables, selecting, several, (option, axis) = TOOLS[tool]
            options = command.arguments[words.index(tool) + 1 :]
            options = options[: options.index("--")] if "--" in options else options
            text = re.sub(r"\$\{\{.*?\}\}", "$", " ".join(options))
            is_selected = any(word.startswith(selecting) for word in options)
            is_selected = is_selected or any(name in environment for name in variables)
            if several.search(text) or not is_selected:
                what = f"the step may run the tests several times: {shorten(command.words)}"
                names = f"`{axis}: [...]` below `matrix:`, with names of tests in `{tool} -l`"
                fix = f"write {names}, and run {tool} {option} ${{{{ matrix.{axis} }}}}"
                raise NotMovable(what, where=job.where, fix=fix)
