"""Jobs and steps that are added to a workflow, rendered from templates, with the actions they use.

Pure: values in, text out.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from ciguard.render.templates import environment
from ciguard.workflow.guard_job import NEW_JOBS, TESTS_FILE, GuardedJob, NextStep, add_jobs
from ciguard.workflow.rewrite import action_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Environment


# The actions that a generated workflow uses, pinned by commit: a tag can move, a commit cannot.
# Read from the tags of the actions' repositories, 2026-11.
ACTIONS: Final = {
    "checkout": "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1",
    "download_artifact": (
        "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1"
    ),
    "install_action": "taiki-e/install-action@ba47c86ac325773530516bb756137ac718732518 # v2.86.5",
    "setup_go": "actions/setup-go@b7ad1dad31e06c5925ef5d2fc7ad053ef454303e # v7.0.0",
    "setup_java": "actions/setup-java@b6effb05e454b25005698d916606bdc6ffcbf961 # v5.7.0",
    "setup_node": "actions/setup-node@820762786026740c76f36085b0efc47a31fe5020 # v7.0.0",
    "setup_php": "shivammathur/setup-php@f3e473d116dcccaddc5834248c87452386958240 # 2.37.2",
    "setup_python": "actions/setup-python@5fda3b95a4ea91299a34e894583c3862153e4b97 # v7.0.0",
    "setup_ruby": "ruby/setup-ruby@0dafeac902942906541bc140009cdbf32665b601 # v1.315.0",
    "setup_uv": "astral-sh/setup-uv@20cfd1bf945f4377ade1205e4dbc17946fc9a30d # v10.0.1",
    "upload_artifact": "actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f # v7.0.0",
}


@lru_cache(maxsize=1)
def workflow_environment() -> Environment:
    """Return the environment of workflow templates: ${{ }} is GitHub's, << >> is Jinja's."""
    overlay = environment().overlay(
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=False,  # the template's macros open with the line break they need
        lstrip_blocks=False,
    )
    overlay.filters["quoted"] = quoted
    return overlay


def quoted(value: str | bool | Sequence[str]) -> str:
    """Quote for YAML and TOML: every JSON string without surrogate escapes is one of theirs."""
    return json.dumps(value, ensure_ascii=False)


def render_guard_job(
    part: NextStep | Literal["listing"],
    actions: str,
    job: GuardedJob,
    *,
    listing: str = "",
    filter_key: str = "",
) -> str:
    """Render a job that reads the results of a test job, "guard" or "history", or "listing": the
    steps of the test job that list the tests by a command.
    """
    tests = job.tests
    return (
        workflow_environment()
        .get_template("guard.yml.j2")
        .render(
            part=part,
            job=job.name,
            target=f"{job.where}:{job.name}",
            listing=listing,
            filter_key=filter_key,
            tests=TESTS_FILE,
            path=f"{tests.folder}/{TESTS_FILE}" if tests.folder else TESTS_FILE,
            folder=tests.folder,
            shell=tests.shell,
            env=tests.env,
            is_conditional=job.is_conditional,
            patterns=job.upload.result_patterns,
            pins=ACTIONS,
            use=lambda name: action_path(actions, name),
        )
    )


def with_next_job(
    text: str,
    step: NextStep,
    job: GuardedJob,
    actions: str,
    *,
    listing: str,
    filter_key: str = "",
) -> str:
    """Return the workflow with the job that a next step adds.

    Raises:
        NotMovable: the file cannot be edited.
    """
    rendered = render_guard_job(step, actions, job, filter_key=filter_key)
    steps = ""
    if step == "guard":
        steps = render_guard_job("listing", actions, job, listing=listing)
    return add_jobs(text, job, {NEW_JOBS[step]: rendered}, steps)
