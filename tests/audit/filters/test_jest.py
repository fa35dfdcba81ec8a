"""What Jest selects: known answers, and agreement with its own code for patterns and shards."""

from __future__ import annotations

import json
import random
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from ciguard.audit.filters import jest
from ciguard.audit.filters.base import Evaluator
from ciguard.audit.filters.expression import Selection, positions_in
from ciguard.audit.test_set import TestSet
from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

FILES = (
    "test/cart.test.js",
    "test/deep/cart.test.ts",
    "test/odd names.spec.tsx",
    "src/user/__tests__/Login.js",
    "top.test.js",
)


def selection(text: str, files: tuple[str, ...] = FILES) -> Selection:
    tests = TestSet(tuple(InventoryUnit(file, file=file) for file in files))
    return Evaluator(tests, jest).select(jest.parse(text, "ci.yml:1"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("cart", [0, 1]),
        ("CART user", [0, 1, 3]),
        ("'odd names' --ci --maxWorkers=2 -w 3", [2]),
        ("./test", [0, 1, 2]),
        ("^top", [4]),
        (r"'\.js$'", [0, 3, 4]),
        ("--testPathPatterns=deep", [1]),
        ("--testPathIgnorePatterns cart", [2, 3, 4]),
        ("test --testPathIgnorePatterns=/deep/", [0, 2, 3, 4]),
        # Lists take every word up to the next option.
        ("--testPathIgnorePatterns deep top", [0, 2, 3]),
        ("--testPathIgnorePatterns=deep top --ci src", [3]),
        ("--testPathPatterns deep top", [1, 4]),
        ("--workerThreads cart --color", [0, 1]),
        ("cart --reporters=jest-junit", [0, 1]),
        ("cart --reporters default --reporters jest-junit", [0, 1]),
        ("cart --reporters default jest-junit --ci", [0, 1]),
        ("--reporters default cart", [0, 1, 2, 3, 4]),
        ("--reporters=default cart", [0, 1, 2, 3, 4]),
        ("--testResultsProcessor jest-junit cart", [0, 1]),
        ("--testResultsProcessor=jest-junit cart", [0, 1]),
        ("--collectCoverageFrom 'src/**' cart --coverageReporters text lcov -i", [0, 1]),
        ("--no-cache --no-watchman --clearMocks --bail=2 cart", [0, 1]),
        ("--run-in-band --max-workers 2 --coverage-reporters=text --ci cart", [0, 1]),
        ("--coverage=false --ci=true --watchAll=false --watch=false cart", [0, 1]),
    ],
)
def test_patterns_select_what_jest_runs(text: str, expected: list[int]) -> None:
    found = selection(text)
    assert found.is_known
    assert list(positions_in(found.sure)) == expected


def test_shards_divide_the_files() -> None:
    shares = [selection(f"--shard={index}/3") for index in (1, 2, 3)]
    assert all(one.is_known for one in shares)
    assert [one.sure.bit_count() for one in shares] == [2, 2, 1]
    assert shares[0].sure | shares[1].sure | shares[2].sure == 0b11111


@pytest.mark.parametrize(
    "text",
    [
        *("-t adds", "--onlyChanged", "cart --shard=1/2", "--watch", "--watchAll=true", "--no"),
        *("--selectProjects web", "--testMatch '**/a.js'", "--rootDir=web", "--not-an-option"),
        "--coverage false",
    ],
)
def test_what_depends_on_more_than_paths_is_not_known(text: str) -> None:
    assert not selection(text).is_known


def test_reporters_leave_a_shard_known() -> None:
    options = "--ci --reporters=default --reporters=jest-junit"
    assert selection(f"--shard=1/3 {options}") == selection("--shard=1/3")


def test_root_folder_of_absolute_paths_is_not_known() -> None:
    files = tuple(f"/src/shop/{file}" for file in FILES)
    assert selection("--shard=1/2", files) == Selection(0, 0b11111)
    assert selection("./test", files) == Selection(0, 0b11111)
    assert selection("cart", files).is_known


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("'(a'", "no regular expression: '(a'"),
        ("--shard=4/3", "no share: --shard=4/3"),
        pytest.param("--shard=1/" + 5000 * "9", "no share: --shard=1/999", id="long"),
    ],
)
def test_bad_argument_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        jest.parse(text, "ci.yml:1")
    assert str(raised.value).startswith(f"ci.yml:1: {problem}")


DRIVER = """
const {TestPathPatterns} = require('@jest/pattern');
const Sequencer = require('@jest/test-sequencer').default;
const {files, calls} = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const rootDir = '/0';
const tests = files.map(file => ({path: `${rootDir}/${file}`, context: {config: {rootDir}}}));
const name = test => test.path.slice(rootDir.length + 1);
(async () => {
  const answers = [];
  for (const {patterns, ignored, shard} of calls) {
    const chosen = new TestPathPatterns(patterns).toExecutor({rootDir});
    let found = tests.filter(test => chosen.isMatch(test.path));
    if (ignored.length)
      found = found.filter(test => !new RegExp(ignored.join('|')).test(test.path));
    if (shard) found = await new Sequencer({}).shard(found, shard);
    answers.push(found.map(name).sort());
  }
  console.log(JSON.stringify(answers));
})();
"""
PIECES = (
    "cart",
    "CART",
    "test",
    "t",
    "./test",
    "^top",
    "\\.js$",
    "deep|user",
    "[a-c]art",
    "x",
    "/",
    ".",
)


@pytest.mark.soak
def test_evaluator_selects_what_jest_does(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    packages = ["@jest/pattern@30", "@jest/test-sequencer@30"]
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    install = ["npm", "install", "--prefix", str(tmp_path), *options, *packages]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"the package registry was not reached: {done.stderr[-200:]}")
    (tmp_path / "driver.js").write_text(DRIVER, "utf-8")
    random_ = random.Random(3)
    calls, texts = [], []
    for _ in range(2000):
        patterns = random_.choices(PIECES, k=random_.choice([0, 1, 1, 2]))
        ignored = random_.choices(PIECES[:2] + PIECES[6:], k=random_.choice([0, 0, 1]))
        words = [*patterns, *(f"--testPathIgnorePatterns={one}" for one in ignored)]
        shard = None
        if not words:
            count = random_.randint(1, 6)
            index = random_.randint(1, count)
            shard = {"shardIndex": index, "shardCount": count}
            words = [f"--shard={index}/{count}"]
        calls.append({"patterns": patterns, "ignored": ignored, "shard": shard})
        texts.append(shlex.join(words))
    answer = subprocess.run(
        ["node", "driver.js"],
        cwd=tmp_path,
        input=json.dumps({"files": FILES, "calls": calls}),
        capture_output=True,
        text=True,
        check=True,
    )
    for text, expected in zip(texts, json.loads(answer.stdout), strict=True):
        found = selection(text)
        assert found.is_known, text
        assert sorted(FILES[place] for place in positions_in(found.sure)) == expected, text
