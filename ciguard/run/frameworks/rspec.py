"""RSpec 3.8 and newer: a unit is a spec file, its cases are the examples in it.

The plugin enters by RUBYOPT and changes the configuration of RSpec's own run: no file of the
project changes, and its own formatters go on. RSpec loads all files before the first example. A
file that fails to load would end the run; with the plugin, the other files run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.run.frameworks.answers import read_answer
from ciguard.run.frameworks.base import Invocation, Listing, enclosing
from ciguard.run.frameworks.defaults import (
    batch_variables,
    ended_by_itself,
    id_alone,
    loaded_before,
    reported_timeout,
)
from ciguard.run.frameworks.ruby import SHARED_PLUGIN, ruby_invocation

if TYPE_CHECKING:
    from ciguard.model import Suite
    from ciguard.run.frameworks.base import ProcessFiles

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


def listing(suite: Suite, variant: str, answer_file: str, inside_folder: str) -> Invocation:
    """Looks for spec files only, and loads none; the plugin writes `answer_file`."""
    env = {"CIGUARD_COLLECT_FILE": answer_file}
    return ruby_invocation(suite, variant, env, PLUGIN, inside_folder)


def read_listing(suite: Suite, answer: bytes, printed: bytes, code: int) -> Listing:
    """Paths from the suite's folder, sorted."""
    return read_answer(suite, answer, printed, code, "RSpec")


def execution(suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:
    """Runs a batch: the plugin selects the files, orders and records."""
    return ruby_invocation(suite, variant, batch_variables(batch), PLUGIN, batch.inside_folder)


def advice(output: str) -> str:
    """Where there is no RSpec, or not all that the Gemfile names."""
    if "command not found: rspec" in output or "Could not find" in output:
        return "install the project's gems first (bundle install), or set the suite's command"
    return ""


file_of = loaded_before
hit_own_timeout = reported_timeout
is_normal_exit = ended_by_itself
junit_name = id_alone
ancestors = enclosing
