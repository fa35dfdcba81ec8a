"""Frameworks of Ruby, each with a plugin that Ruby loads by RUBYOPT.

A unit is a test file, and its cases are the examples or tests in it. All files are loaded before
the first test.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Mapping

from ciguard.model import Suite
from ciguard.run.frameworks.base import Invocation, loaded_before
from ciguard.run.frameworks.plugin_protocol import plugin_row, whole_command

SHARED_PLUGIN: Final = "ciguard_ruby.rb"
INSTALL: Final = "install the project's gems first (bundle install), or set the suite's command"


def _invocation(
    plugin: str, suite: Suite, variant: str, env: Mapping[str, str], inside_folder: str
) -> Invocation:
    """Return the suite's program, with a plugin that Ruby loads below bundle, rake or a script.

    Args:
        plugin: name of a file in `inside_folder`.
        env: variables of the plugin.
    """
    name = plugin[: -len(".rb")]
    # RUBYOPT has no quoting: the folder, whose name may hold a space, is on the search path.
    # A server of Spring would have started before, without the plugin.
    return Invocation(
        whole_command(suite, variant),
        {**env, "DISABLE_SPRING": "1"},
        {"RUBYLIB": inside_folder},
        {"RUBYOPT": (" ", f"-r{name}")},
    )


# 3.8 and newer. The plugin changes the configuration of RSpec's own run: no file of the project
# changes, and its own formatters go on. RSpec loads all files before the first example. A file that
# fails to load would end the run; with the plugin, the other files run. RSpec's --exclude-pattern
# holds one pattern, and a second one replaces it: so no `ignore_folder`.
RSPEC: Final = replace(
    plugin_row("rspec", "RSpec", _invocation, "ciguard_rspec.rb", SHARED_PLUGIN),
    default_command=("bundle", "exec", "rspec"),
    file_patterns=("*_spec.rb",),
    file_of=loaded_before,
    hints=(("command not found: rspec|Could not find", INSTALL),),
)

# 5.11 and newer. Rake, Rails and Minitest's own runner require test files one by one: those that
# are not asked for are left out there, so that any of these commands may run a batch.
MINITEST: Final = replace(
    plugin_row("minitest", "Minitest", _invocation, "ciguard_minitest.rb", SHARED_PLUGIN),
    default_command=("bundle", "exec", "rake", "test"),
    file_patterns=("*_test.rb", "test_*.rb"),
    file_of=loaded_before,
    hints=(
        (r"bundler: command not found|Could not (?:find|locate) ", INSTALL),
        (
            # By rake, and by the plugin.
            r"No Rakefile found|Don't know how to build task|no test file was required",
            "set the suite's command to one that requires test files: rake test, bin/rails test",
        ),
    ),
)
