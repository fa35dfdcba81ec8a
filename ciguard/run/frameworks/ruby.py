"""What the adapters of Ruby's frameworks share: how a plugin enters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Mapping

from ciguard.run.frameworks.base import Invocation, variant_args

if TYPE_CHECKING:
    from ciguard.model import Suite

SHARED_PLUGIN: Final = "ciguard_ruby.rb"


def ruby_invocation(
    plugin: str, suite: Suite, variant: str, env: Mapping[str, str], inside_folder: str
) -> Invocation:
    """The suite's program with a plugin that Ruby itself loads, through bundle, rake or a script.

    Args:
        plugin: name of a file in `inside_folder`.
        env: for the plugin.
    """
    name = plugin[: -len(".rb")]
    # RUBYOPT has no quoting: the folder, whose name may hold a space, is on the search path.
    # Spring's server was started before, without the plugin.
    words = () if suite.is_script else variant_args(suite, variant)
    return Invocation(
        (*suite.command, *words),
        {**env, "DISABLE_SPRING": "1"},
        {"RUBYLIB": inside_folder},
        {"RUBYOPT": (" ", f"-r{name}")},
    )
