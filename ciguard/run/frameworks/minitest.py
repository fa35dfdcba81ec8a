"""Minitest 5.11 and newer: a unit is a test file, its cases are the tests in it.

The plugin enters by RUBYOPT. Rake, Rails and Minitest's own runner require test files one by one:
those that are not asked for are left out there, so that any of these commands may run a batch.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from ciguard.run.frameworks import defaults
from ciguard.run.frameworks.answers import read_answer
from ciguard.run.frameworks.base import enclosing
from ciguard.run.frameworks.ruby import SHARED_PLUGIN, ruby_invocation

NAME: Final = "minitest"
IS_DEFAULT: Final = False
FILE_PATTERNS: Final[tuple[str, ...]] = ("*_test.rb", "test_*.rb")
DEFAULT_COMMAND: Final[tuple[str, ...]] = ("bundle", "exec", "rake", "test")
IGNORE_FOLDER: Final = ""
UNIT: Final = "file"
CLOSES_UNITS: Final = True
KEEPS_ORDER: Final = True
IDS_ONE_PER_LINE: Final = False
LISTS_IN_TESTED_PROCESS: Final = False
REPORTS_STARTS: Final = True

PLUGIN: Final = "ciguard_minitest.rb"
PLUGIN_FILES: Final[tuple[str, ...]] = (PLUGIN, SHARED_PLUGIN)
NOT_INSTALLED: Final = re.compile(r"bundler: command not found|Could not (?:find|locate) ")
# By rake, and by the plugin.
NOT_LOADED: Final = re.compile(
    r"No Rakefile found|Don't know how to build task|no test file was required"
)


def advice(output: str) -> str:
    """Where there are not all gems, or the command is none that the plugin can enter."""
    if NOT_INSTALLED.search(output):
        return "install the project's gems first (bundle install), or set the suite's command"
    if NOT_LOADED.search(output):
        return "set the suite's command to one that requires test files: rake test, bin/rails test"
    return ""


_launch = partial(ruby_invocation, PLUGIN)
listing = partial(defaults.listing_by, _launch)
# Paths from the suite's folder, sorted.
read_listing = partial(read_answer, program="Minitest")
execution = partial(defaults.execution_by, _launch)
file_of = defaults.loaded_before
hit_own_timeout = defaults.reported_timeout
is_normal_exit = defaults.ended_by_itself
junit_name = defaults.id_alone
ancestors = enclosing
