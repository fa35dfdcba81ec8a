"""RSpec 3.8 and newer: a unit is a spec file, its cases are the examples in it.

The plugin enters by RUBYOPT and changes the configuration of RSpec's own run: no file of the
project changes, and its own formatters go on. RSpec loads all files before the first example. A
file that fails to load would end the run; with the plugin, the other files run.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ciguard.run.frameworks import defaults
from ciguard.run.frameworks.answers import read_answer
from ciguard.run.frameworks.base import enclosing
from ciguard.run.frameworks.ruby import SHARED_PLUGIN, ruby_invocation

NAME: Final = "rspec"
IS_DEFAULT: Final = False
FILE_PATTERNS: Final[tuple[str, ...]] = ("*_spec.rb",)
DEFAULT_COMMAND: Final[tuple[str, ...]] = ("bundle", "exec", "rspec")
IGNORE_FOLDER: Final = ""  # --exclude-pattern holds one pattern, and a second one replaces it
UNIT: Final = "file"
CLOSES_UNITS: Final = True
KEEPS_ORDER: Final = True
IDS_ONE_PER_LINE: Final = False
LISTS_IN_TESTED_PROCESS: Final = False
REPORTS_STARTS: Final = True

PLUGIN: Final = "ciguard_rspec.rb"
PLUGIN_FILES: Final[tuple[str, ...]] = (PLUGIN, SHARED_PLUGIN)


def advice(output: str) -> str:
    """Where there is no RSpec, or not all that the Gemfile names."""
    if "command not found: rspec" in output or "Could not find" in output:
        return "install the project's gems first (bundle install), or set the suite's command"
    return ""


_launch = partial(ruby_invocation, PLUGIN)
listing = partial(defaults.listing_by, _launch)
# Paths from the suite's folder, sorted.
read_listing = partial(read_answer, program="RSpec")
execution = partial(defaults.execution_by, _launch)
file_of = defaults.loaded_before
hit_own_timeout = defaults.reported_timeout
is_normal_exit = defaults.ended_by_itself
junit_name = defaults.id_alone
ancestors = enclosing
