"""Options by which test tools write result files, and the paths of those that need none.

Tests compare these constants with docs/how-to/comment.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ciguard.run.frameworks.registry import DEFAULT

# Words after `--` would replace the default words of an environment of tox, which may be a path.
_VARIABLE: Final = f"{DEFAULT.upper()}_ADDOPTS"
_ADDOPTS: Final = f"{_VARIABLE}: --junitxml=results"
# The path of the option may have variables: a file for each environment or session.
_TOX: Final = f"{_ADDOPTS}-$TOX_ENV_NAME.xml, TOX_OVERRIDE: testenv.pass_env+={_VARIABLE}"
_SILENT: Final = "the log then names no test"
# Program or framework -> words that make a test command write a result file, or two changes.
# A pipe to `tee` would hide a failure: the default shell of a step is bash without `pipefail`.
RESULT_OPTIONS: Final[Mapping[str, str]] = {
    "tox": f"env: {{ {_TOX} }}",
    "nox": f"env: {{ {_ADDOPTS}-$NOX_CURRENT_SESSION.xml }}",
    "make": f"env: {{ {_ADDOPTS}.xml }}",
    "richgo": f"-json > results.json\ncall go in the place of richgo; {_SILENT}",
    "gotestsum": "--junitfile=results.xml",
    DEFAULT: "--junitxml=results.xml",
    "jest": "--json --outputFile=results.json",
    "vitest": "--reporter=default --reporter=junit --outputFile.junit=results.xml",
    "mocha": f"--reporter xunit --reporter-option output=results.xml\n{_SILENT}",
    # npm writes to the standard output, too.
    "playwright": "--reporter=list,json\nenv: { PLAYWRIGHT_JSON_OUTPUT_NAME: results.json }",
    "node --test": (
        "--test-reporter=spec --test-reporter-destination=stdout --test-reporter=junit "
        "--test-reporter-destination=results.xml"
    ),
    "bun": "--reporter=junit --reporter-outfile=results.xml",
    "go test": f"-json > results.json\n{_SILENT}",
    "dotnet test": "--logger trx",
    "ctest": "--output-junit results.xml",
    "rspec": "--format progress --format json --out results.json",
    "phpunit": "--log-junit results.xml",
}
# Framework -> its result files, unless they are in the folder of the tests.
RESULT_PATHS: Final[Mapping[str, str]] = {
    "ctest": "**/results*.xml",
    "dotnet test": "**/*.trx",
    "maven": "**/target/surefire-reports/*.xml",
    "gradle": "**/build/test-results/**/*.xml",
}
