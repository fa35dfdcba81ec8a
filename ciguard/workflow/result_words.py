"""Words of paths and artifacts that hold results of tests, or their coverage."""

from __future__ import annotations

import re
from typing import Final

RESULTS: Final = re.compile(
    r"junit|\.trx\b|\btests?[-_ ]?(results?|reports?|output)|\breports?/tests?\b|surefire|allure"
    r"|playwright-report|\b(pytest|results?|report)[\w.-]*\.xml",
    re.I,
)
COVERAGE: Final = re.compile(r"coverage|\bcov\b|lcov|cobertura|jacoco", re.I)
