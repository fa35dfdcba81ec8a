"""The two files that `ciguard init` writes: their values, and how they become text.

Pure: values in, text out. What a step may hold is GitHub's, not ours: set-up steps stay verbatim.
"""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from ciguard.errors import UsageError
from ciguard.init.pins import ACTIONS

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True, slots=True)
class Workflow:
    """What differs from one repository's workflow to another's.

    Attributes:
        install: what pip is told to install; "" writes a step that fails and says so.
        setup: YAML list of steps that prepare the machine for the tests; "" for none.
        history: where the history lies, as `--history` takes it.
        python: version for ciguard alone; the tests keep theirs.
    """

    default_branch: str
    install: str
    setup: str
    history: str
    python: str


def render_workflow(workflow: Workflow, templates: Environment, *, static: bool = False) -> str:
    """Render the workflow; raise UsageError where the set-up is not a list of steps.

    Args:
        static: without a plan job, for a matrix that `ciguard plan --static` fills in.
    """
    check_steps(workflow.setup)
    # ${{ }} belongs to GitHub in this file, so Jinja gets other delimiters.
    environment = templates.overlay(
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=False,  # the template's macros open with the line break they need
        lstrip_blocks=False,
    )
    environment.filters["quoted"] = quoted
    return environment.get_template("static.yml.j2" if static else "workflow.yml.j2").render(
        default_branch=workflow.default_branch,
        install=workflow.install,
        setup=textwrap.dedent(workflow.setup).strip("\n"),
        history=workflow.history,
        python=workflow.python,
        pins=ACTIONS,
    )


def render_configuration(install: str, setup: str, framework: str, templates: Environment) -> str:
    """Render the starting ciguard.toml; with `framework` "" it asks for a suite."""
    environment = templates.overlay()
    environment.filters["quoted"] = quoted
    return environment.get_template("ciguard.toml.j2").render(
        install=install, setup=setup, framework=framework
    )


def quoted(text: str) -> str:
    """Quote for YAML and TOML: every JSON string without surrogate escapes is one of theirs."""
    return json.dumps(text, ensure_ascii=False)


def check_steps(setup: str) -> None:
    """Raise UsageError unless `setup` is empty or a YAML list of mappings."""
    if not setup.strip():
        return
    where = "workflow.setup"
    fix = 'write the steps as in a workflow file: "- run: python -m pip install -r dev.txt"'
    try:
        steps = yaml.safe_load(textwrap.dedent(setup))
    except yaml.YAMLError as error:
        raise UsageError(f"not YAML: {error}", where=where, fix=fix) from error
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        found = type(steps).__name__
        raise UsageError(f"expected a list of steps, found {found}", where=where, fix=fix)
