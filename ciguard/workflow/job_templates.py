"""Environment of the templates of workflows, and the actions that they use. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from jinja2 import Environment

from ciguard.render.templates import environment

# The actions that a generated workflow uses, pinned by commit: a tag can move, a commit cannot.
# Read from the tags of the actions' repositories, 2026-11.
ACTIONS: Final = {
    "checkout": "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1",
    "deploy_pages": "actions/deploy-pages@d6db90164ac5ed86f2b6aed7e0febac5b3c0c03e # v4.0.5",
    "download_artifact": (
        "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1"
    ),
    "install_action": "taiki-e/install-action@ba47c86ac325773530516bb756137ac718732518 # v2.86.5",
    "setup_dotnet": "actions/setup-dotnet@a98b56852c35b8e3190ac28c8c2271da59106c68 # v6.0.0",
    "setup_go": "actions/setup-go@b7ad1dad31e06c5925ef5d2fc7ad053ef454303e # v7.0.0",
    "setup_java": "actions/setup-java@b6effb05e454b25005698d916606bdc6ffcbf961 # v5.7.0",
    "setup_node": "actions/setup-node@820762786026740c76f36085b0efc47a31fe5020 # v7.0.0",
    "setup_php": "shivammathur/setup-php@f3e473d116dcccaddc5834248c87452386958240 # 2.37.2",
    "setup_python": "actions/setup-python@5fda3b95a4ea91299a34e894583c3862153e4b97 # v7.0.0",
    "setup_ruby": "ruby/setup-ruby@0dafeac902942906541bc140009cdbf32665b601 # v1.315.0",
    "setup_uv": "astral-sh/setup-uv@20cfd1bf945f4377ade1205e4dbc17946fc9a30d # v10.0.1",
    "upload_artifact": "actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f # v7.0.0",
    "upload_pages_artifact": (
        "actions/upload-pages-artifact@7b1f4a764d45c48632c6b24a0339c27f5614fb0b # v4.0.0"
    ),
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
