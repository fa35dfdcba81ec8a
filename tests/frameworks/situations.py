"""One small suite for each framework, and how each situation changes it: the rows of the table.

Every body of a test appends to the file `$MARKS/<its name>`: what has run is known from these files
alone. `$ACT` is what the code at the place `$AT` does: `one` to `six` are bodies, `hook` is a hook
before `one`.

In templates <NAME> and <Name> stand for a case, <FILE> and <File> for a file, <FOLDER> for the
project's folder, <CACHE> for one that lives as long as the session. <BODY>, <HOOK>, <TOP> and
<CASES> are filled by `Row.sources`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from conftest import ADDOPTS
from frameworks.loop import GO, GO_CACHE, NEXTEST, PLAYER, PROJECTS

from ciguard.run.frameworks.registry import FRAMEWORKS

# By file. Where a unit is a file, each job has two of them: a neighbour might be blamed.
FIRST: Final = ("one", "two", "three")
TWO_FILES: Final = {"first": FIRST, "second": ("four", "five", "six")}
FOUR_FILES: Final = {"first": FIRST, "second": ("four",), "third": ("five",), "fourth": ("six",)}
ALL: Final = frozenset(name for names in TWO_FILES.values() for name in names)


UNSET_NODE: Final = 'unset NODE_OPTIONS; exec "$@"'
UNSET_RUBY: Final = 'unset RUBYOPT; exec "$@"'


@dataclass(frozen=True)
class Setting:
    """What makes a framework run less than was planned.

    Attributes:
        named: words of it that ciguard has to print.
        files: written after the plan; no text removes the file.
        environ: of the jobs.
    """

    named: str
    files: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Situation:
    """What happens in a run.

    Attributes:
        verdict: for people.
        expected: state of the verdict, or several with " or ".
        act: what the code at the place `at` does.
        culprits: cases that may be blamed.
        named: words that ciguard has to print.
    """

    verdict: str
    expected: str
    act: str = ""
    at: str = ""
    culprits: tuple[str, ...] = ()
    named: str = ""


NAMED: Final = "INCOMPLETE, names the setting"
CULPRIT: Final = "FAILED, names the test or its file"
SITUATIONS: Final = {
    "dry run": Situation(NAMED, "INCOMPLETE", culprits=tuple(ALL)),
    "focus": Situation(NAMED, "INCOMPLETE"),
    "filter by configuration": Situation(NAMED, "INCOMPLETE"),
    "filter by environment": Situation(NAMED, "INCOMPLETE"),
    "emptied file": Situation("INCOMPLETE", "INCOMPLETE", culprits=FIRST),
    "deleted file": Situation("INCOMPLETE", "INCOMPLETE", named="first"),
    "results withheld": Situation("INCOMPLETE", "INCOMPLETE"),
    "all skipped": Situation("NOTHING RAN", "NOTHING RAN", "skip"),
    "exit(0) in a test": Situation(CULPRIT, "failed", "exit", "two", ("two",)),
    "exit(0) in a hook": Situation(CULPRIT, "failed", "exit", "hook", FIRST),
    "retry that passes": Situation("PASSED, flaky", "passed", "flaky", "two"),
    "3 MiB without a newline": Situation("PASSED", "passed", "flood", "two"),
    "stdout closed": Situation("PASSED", "passed", "close", "two", ("two",)),
    "killed at the start": Situation(CULPRIT, "failed", "kill", "one", ("one",)),
    "killed in the middle": Situation(CULPRIT, "failed", "kill", "two", ("two",)),
    "killed at the end": Situation(CULPRIT, "failed", "kill", "three", ("three",)),
    "job killed": Situation("INCOMPLETE, names the shard", "INCOMPLETE", named="shard"),
    "import error": Situation(
        "FAILED or INCOMPLETE, names the file",
        "failed or INCOMPLETE",
        culprits=FIRST,
        named="first",
    ),
    "odd path": Situation("PASSED", "passed"),
}


@dataclass(frozen=True)
class Row:
    """A framework.

    Attributes:
        name: of the adapter, unless `framework` is.
        needs: programs and packages: see `test_table.needed`.
        toml: of the suite, below its framework.
        path: of a test file.
        unit: of a case; of a file where <NAME> is not in it.
        file: text of a test file.
        case: text of a case in it.
        hook: text of a hook in the first file.
        files: all others.
        build: command before the plan, and again after a change.
        refuses_filter: no plan is made where `by_file` is there before.
        environ: of the plan and the jobs.
        withheld: shell commands that run "$@" so that ciguard gets no result.
        broken: <TOP> of a file that cannot be imported.
        odd: path of a file with characters that are none of a name.
        none: by situation, a word why there is none.
        retry: environment in which a test that failed is executed again.
        given: by situation, what is expected where it is not what `test_table` says.
    """

    name: str
    path: str
    unit: str
    file: str
    case: str
    framework: str = ""
    needs: tuple[str, ...] = ()
    toml: str = ""
    hook: str = ""
    skipped: str = ""
    focused: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    build: str = ""
    refuses_filter: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    withheld: str = 'exec "$@" > /dev/null'
    broken: str = ""
    odd: str = ""
    retry: Mapping[str, str] = field(default_factory=dict)
    dry_run: Setting | None = None
    by_file: Setting | None = None
    by_environ: Setting | None = None
    none: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)

    @property
    def withholding_toml(self) -> str:
        """The suite's TOML, its command in a shell that withholds results where `MUTE` is set."""
        return self.wrapped_toml(f'[ -z "$MUTE" ] || {{ {self.withheld}; }}; exec "$@"')

    def wrapped_toml(self, script: str) -> str:
        """The suite's TOML, its command in a shell."""
        own = re.search(r"^command = (.*)$", self.toml, re.MULTILINE)
        command = json.loads(own[1]) if own else FRAMEWORKS[self.name].default_command
        line = f"command = {json.dumps(['sh', '-c', script, 'sh', *command])}\n"
        return line + re.sub(r"^command = .*\n", "", self.toml, flags=re.MULTILINE)

    @property
    def settings(self) -> dict[str, Setting]:
        found = {
            "dry run": self.dry_run,
            "filter by configuration": self.by_file,
            "filter by environment": self.by_environ,
        }
        return {name: one for name, one in found.items() if one}

    @property
    def has_case_units(self) -> bool:
        return "<NAME>" in self.unit.upper()

    @property
    def cases(self) -> Mapping[str, tuple[str, ...]]:
        return TWO_FILES if self.has_case_units else FOUR_FILES

    @property
    def units(self) -> dict[str, str]:
        cases = ((file, name) for file, names in self.cases.items() for name in names)
        return {name: fill(self.unit, name, file) for file, name in cases}

    def source(self, file: str, *, empty: bool = False, top: str = "", **cases: str) -> str:
        """The text of a test file; `cases` are templates by name, where not `case`."""
        names = () if empty else self.cases[file]
        texts = [
            fill(cases.get(name) or cases.get("all") or self.case, name, file) for name in names
        ]
        text = self.file.replace("<TOP>", top).replace("<CASES>", "".join(texts))
        return fill(text.replace("<HOOK>", self.hook if file == "first" else ""), "", file)


def fill(text: str, name: str, file: str) -> str:
    values = {"NAME": name, "Name": name.title(), "FILE": file, "File": file.title()}
    for key, value in values.items():
        text = text.replace(f"<{key}>", value)
    return text


PYTEST = Row(
    name="pytest",
    path="tests/test_<FILE>.py",
    unit="tests/test_<FILE>.py::test_<NAME>",
    file="from acting import act\nimport pytest\n<TOP>\n<HOOK><CASES>",
    case='def test_<NAME>(): act("<NAME>")\n',
    hook='@pytest.fixture(autouse=True, scope="module")\ndef hook(): act("hook")\n',
    files={
        "acting.py": "<table/acting.py>",
        # As pytest-rerunfailures does it.
        "conftest.py": """import os
from _pytest.runner import runtestprotocol
def pytest_runtest_protocol(item, nextitem):
    if os.environ.get("ACT") != "flaky": return None
    for last in (False, True):
        item._initrequest()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        for report in reports:
            if report.failed and not last: report.outcome = "rerun"
            item.ihook.pytest_runtest_logreport(report=report)
        if all(report.passed for report in reports): break
    return True
""",
    },
    withheld='unset PYTHONPATH; exec "$@"',
    broken="import no_such_module",
    odd="tests/test_odd ::[x] $(y) 'z' ü.py",
    dry_run=Setting("--trace", {"pytest.ini": "[pytest]\naddopts = --trace\n"}),
    by_file=Setting("-k", {"pytest.ini": "[pytest]\naddopts = -k 'not two'\n"}),
    by_environ=Setting("-k", environ={"PYTEST_ADDOPTS": f"{ADDOPTS} -k 'not two'"}),
    none={"focus": "none"},
    given={"odd path": "refused"},
)

NODE_FILE = """const { act } = require("../act.cjs");
const test_ = process.env.ACT === "skip" ? it.skip : it;
<TOP>
describe("<FILE>", () => {
<HOOK><CASES>
});
"""
NODE_CASE = '  test_("<NAME>", () => act("<NAME>"));\n'
NODE_ONLY = '  it.only("<NAME>", () => act("<NAME>"));\n'
NODE_HOOK = '  beforeAll(() => act("hook"));\n'
JEST = Row(
    name="jest",
    needs=("npm jest",),
    toml='command = ["node_modules/.bin/jest"]\n',
    path="test/<FILE>.test.js",
    unit="test/<FILE>.test.js",
    file=NODE_FILE,
    case=NODE_CASE,
    hook=NODE_HOOK,
    focused=NODE_ONLY,
    files={
        "act.cjs": "<table/act.cjs>",
        "jest.config.js": 'module.exports = { setupFilesAfterEnv: ["./setup.js"] };\n',
        "setup.js": 'if (process.env.ACT === "flaky") jest.retryTimes(2);\n',
    },
    withheld=UNSET_NODE,
    broken='require("./missing");',
    odd="test/odd ::[x] $(y) 'z' ü.test.js",
    by_file=Setting(
        "testNamePattern",
        {"jest.config.js": 'module.exports = { testNamePattern: "^(?!.*two)" };\n'},
    ),
    none={"dry run": "none", "filter by environment": "none"},
    given={"emptied file": "failed", "stdout closed": "failed"},
)
VITEST_CONFIG = """export default { test: {
  globals: true, testTimeout: 100000, retry: process.env.ACT === "flaky" ? 2 : 0,
  include: ["test/**/*.test.js"], <MORE>
} };
"""
VITEST = replace(
    JEST,
    name="vitest",
    needs=("npm vitest",),
    toml='command = ["node_modules/.bin/vitest", "run"]\n',
    file=NODE_FILE.replace(
        'const { act } = require("../act.cjs")', 'import { act } from "../act.cjs"'
    ),
    files={"act.cjs": "<table/act.cjs>", "vitest.config.mjs": VITEST_CONFIG.replace("<MORE>", "")},
    broken='import "./missing";',
    by_file=Setting(
        "testNamePattern",
        {"vitest.config.mjs": VITEST_CONFIG.replace("<MORE>", "testNamePattern: /^(?!.*two)/")},
    ),
    given={"emptied file": "failed"},
)
PLAYWRIGHT_CONFIG = """module.exports = {
  testDir: "test", retries: process.env.ACT === "flaky" ? 2 : 0, reporter: "list", <MORE>
};
"""
PLAYWRIGHT = replace(
    JEST,
    name="playwright",
    needs=("npm @playwright/test",),
    toml='command = ["node_modules/.bin/playwright", "test"]\n',
    path="test/<FILE>.spec.js",
    unit="test/<FILE>.spec.js",
    file="""const { act } = require("../act.cjs");
const { test } = require("@playwright/test");
const test_ = process.env.ACT === "skip" ? test.skip : test;
<TOP>
test.describe("<FILE>", () => {
<HOOK><CASES>
});
""",
    hook=f"  test.{NODE_HOOK.lstrip()}",
    focused=NODE_ONLY.replace("it.only", "test.only"),
    files={
        "act.cjs": "<table/act.cjs>",
        "playwright.config.js": PLAYWRIGHT_CONFIG.replace("<MORE>", ""),
    },
    odd="test/odd ::[x] $(y) 'z' ü.spec.js",
    by_file=Setting(
        "grep", {"playwright.config.js": PLAYWRIGHT_CONFIG.replace("<MORE>", "grep: /^(?!.*two)/")}
    ),
    given={},
)
MOCHARC = '{ "spec": ["test/**/*.test.js"], "timeout": 100000<MORE> }\n'
MOCHA = replace(
    JEST,
    name="mocha",
    needs=("npm mocha",),
    toml='command = ["node_modules/.bin/mocha"]\n',
    file=NODE_FILE.replace(
        "() => {\n<HOOK>",
        'function () {\n  this.retries(process.env.ACT === "flaky" ? 2 : 0);\n<HOOK>',
    ),
    hook='  before(() => act("hook"));\n',
    files={"act.cjs": "<table/act.cjs>", ".mocharc.json": MOCHARC.replace("<MORE>", "")},
    dry_run=Setting("dry-run", {".mocharc.json": MOCHARC.replace("<MORE>", ', "dry-run": true')}),
    by_file=Setting("grep", {".mocharc.json": MOCHARC.replace("<MORE>", ', "grep": "^(?!.*two)"')}),
    by_environ=Setting("MOCHA_OPTIONS", environ={"MOCHA_OPTIONS": "--grep ^(?!.*two)"}),
    none={},
    given={"stdout closed": "failed"},
)
BUT_TWO = "one|three|four|five|six"
PACKAGE = '{ "scripts": { "test": "node --test<MORE>" } }\n'
NODE_TEST = replace(
    JEST,
    name="node-test",
    needs=("program node",),
    toml='command = ["npm", "test"]\n',
    file="""const { act } = require("../act.cjs");
const { before, test } = require("node:test");
const test_ = process.env.ACT === "skip" ? test.skip : test;
<TOP>
<HOOK><CASES>
""",
    hook='before(() => act("hook"));\n',
    files={"act.cjs": "<table/act.cjs>", "package.json": PACKAGE.replace("<MORE>", "")},
    by_file=Setting(
        "--test-name-pattern",
        {"package.json": PACKAGE.replace("<MORE>", f" --test-name-pattern='{BUT_TWO}'")},
    ),
    by_environ=Setting(
        "--test-name-pattern", environ={"NODE_OPTIONS": f"--test-name-pattern={BUT_TWO}"}
    ),
    none={"dry run": "none", "focus": "needs `--test-only`", "retry that passes": "none"},
    given={"stdout closed": "failed"},
)

RSPEC = Row(
    name="rspec",
    needs=("program rspec",),
    toml='command = ["rspec"]\n',
    path="spec/<FILE>_spec.rb",
    unit="spec/<FILE>_spec.rb",
    file='<TOP>\nRSpec.describe "<FILE>" do\n<HOOK><CASES>\nend\n',
    case='  it("<NAME>", :<NAME>) { act "<NAME>" }\n',
    hook='  before(:all) { act "hook" }\n',
    focused='  fit("<NAME>") { act "<NAME>" }\n',
    files={
        ".rspec": "--require spec_helper\n",
        # As rspec-retry does it.
        "spec/spec_helper.rb": "<table/act.rb>"
        + """RSpec.configure do |config|
  config.filter_run_when_matching :focus
  config.around do |example|
    example.run
    if ENV["ACT"] == "flaky" && example.exception
      example.example.instance_variable_set(:@exception, nil)
      example.metadata[:retry_attempts] = 1
      example.run
    end
  end
end
""",
    },
    withheld=UNSET_RUBY,
    broken='require "no/such/file"',
    odd="spec/odd ::[x] $(y) 'z' ü_spec.rb",
    dry_run=Setting("--dry-run", {".rspec": "--require spec_helper\n--dry-run\n"}),
    by_file=Setting("~two", {".rspec": "--require spec_helper\n--tag ~two\n"}),
    by_environ=Setting("~two", environ={"SPEC_OPTS": "--tag ~two"}),
)
RAKEFILE = """require "rake/testtask"
Rake::TestTask.new do |task|
  task.libs << "test"
  task.pattern = "test/**/*_test.rb"
  <MORE>
end
"""
MINITEST = Row(
    name="minitest",
    needs=("program rake", "gem minitest"),
    toml='command = ["rake", "test"]\n',
    path="test/<FILE>_test.rb",
    unit="test/<FILE>_test.rb",
    file='require "test_helper"\n<TOP>\nclass <File>Test < Minitest::Test\n<HOOK><CASES>\nend\n',
    case='  def test_<NAME> = act("<NAME>")\n',
    hook='  def setup = act("hook")\n',
    files={
        "test/test_helper.rb": "<table/act.rb>" + 'require "minitest/autorun"\n',
        "Rakefile": RAKEFILE.replace("<MORE>", ""),
    },
    withheld=UNSET_RUBY,
    broken='require "no/such/file"',
    odd="test/odd ::[x] (y) 'z' ü_test.rb",
    dry_run=Setting("", environ={"RAKEOPT": "--dry-run"}),
    by_file=Setting(
        "two", {"Rakefile": RAKEFILE.replace("<MORE>", 'task.options = "--exclude=/two/"')}
    ),
    by_environ=Setting("two", environ={"TESTOPTS": "--exclude=/two/"}),
    none={"focus": "needs a gem", "retry that passes": "needs a gem"},
)

GO_ROW = Row(
    name="go",
    needs=("go",),
    path="<FILE>/<FILE>_test.go",
    unit="example.org/shop/<FILE>.Test<Name>",
    file="""package <FILE>

import (
	"os"
	"testing"

	"example.org/shop/act"
)

<TOP>
var _ = os.Args
var _ *testing.T
var _ = act.Do
<HOOK><CASES>
""",
    case='func Test<Name>(t *testing.T) { act.Do(t, "<NAME>") }\n',
    hook='func TestMain(m *testing.M) { act.Do(nil, "hook"); os.Exit(m.Run()) }\n',
    files={
        "go.mod": "module example.org/shop\n\ngo 1.22\n",
        "go.env": "",
        "act/act.go": "<table/act.go>",
    },
    environ={
        "PATH": f"{GO}:<PATH>",
        "GOCACHE": str(GO_CACHE),
        "GOTOOLCHAIN": "local",
        "GOENV": "<FOLDER>/go.env",
    },
    broken='var _ int = "no number"',
    odd="odd ::[x] $(y) 'z' ü/<FILE>_test.go",
    dry_run=Setting("-n", environ={"GOFLAGS": "-n"}),
    by_file=Setting("-skip", {"go.env": "GOFLAGS=-skip=TestTwo\n"}),
    by_environ=Setting("-skip", environ={"GOFLAGS": "-skip=TestTwo"}),
    refuses_filter=True,
    none={"focus": "none", "retry that passes": "none"},
    given={"exit(0) in a hook": "INCOMPLETE", "stdout closed": "failed", "odd path": "refused"},
)
NEXTEST_CONFIG = "[profile.only]\ndefault-filter = 'not test(two)'\n"
NEXTEST_ROW = Row(
    name="nextest",
    needs=("program cargo", "nextest"),
    toml='args = ["--offline"]\n',
    path="tests/<FILE>.rs",
    unit="shop::<FILE> <NAME>",
    file="#![allow(unused_imports)]\nuse shop::act;\n<TOP>\n<HOOK><CASES>",
    case='#[test]\nfn <NAME>() { act("<NAME>"); }\n',
    skipped='#[test]\n#[ignore]\nfn <NAME>() { act("<NAME>"); }\n',
    files={
        "Cargo.toml": '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2018"\n'
        + "".join(f'\n[[test]]\nname = "{one}"\npath = "<{one.upper()}>"\n' for one in TWO_FILES),
        "Cargo.lock": 'version = 3\n\n[[package]]\nname = "shop"\nversion = "0.1.0"\n',
        ".config/nextest.toml": NEXTEST_CONFIG,
        "src/lib.rs": "<table/act.rs>",
    },
    environ={
        "PATH": f"{NEXTEST}:<PATH>",
        "CARGO_TARGET_DIR": "<CACHE>/target",
        "CARGO_INCREMENTAL": "0",
        "CARGO_PROFILE_TEST_DEBUG": "0",
    },
    broken='const NUMBER: u32 = "no number";',
    odd="tests/odd ::[x] $(y) ü.rs",
    dry_run=Setting(
        "test result",
        {
            ".config/nextest.toml": 'experimental = ["wrapper-scripts"]\n'
            "[scripts.wrapper.none]\ncommand = 'true'\n"
            "[[profile.default.scripts]]\nfilter = 'all()'\nrun-wrapper = 'none'\n"
        },
    ),
    by_file=Setting(
        "first two",
        {".config/nextest.toml": "[profile.default]\ndefault-filter = 'not test(two)'\n"},
    ),
    by_environ=Setting("first two", environ={"NEXTEST_PROFILE": "only"}),
    retry={"NEXTEST_RETRIES": "1"},
    none={"focus": "none", "exit(0) in a hook": "none"},
    given={"dry run": "failed", "stdout closed": "failed"},
)

CTEST = Row(
    name="ctest",
    needs=("program ctest",),
    path="<FILE>.cmake",
    unit="<FILE>.<NAME>",
    file="<TOP>\n<HOOK><CASES>",
    case='add_test(NAME <FILE>.<NAME> COMMAND sh "${CMAKE_SOURCE_DIR}/act.sh" <NAME>)\n'
    "set_tests_properties(<FILE>.<NAME> PROPERTIES SKIP_RETURN_CODE 77)\n",
    files={
        "act.sh": "<table/act.sh>",
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.14)\nproject(shop NONE)\n"
        'enable_testing()\nfile(GLOB found "*.cmake")\nforeach(one IN LISTS found)\n'
        '  include("${one}")\nendforeach()\n',
    },
    build="cmake -S . -B build",
    withheld='case "$*" in *-V*) exec "$@" > /dev/null ;; esac',
    odd="odd ::[x] $(y) 'z' ü.cmake",
    by_file=Setting(
        "first.two", {"build/CTestCustom.cmake": "set(CTEST_CUSTOM_TESTS_IGNORE first.two)\n"}
    ),
    none={
        "dry run": "part of the plan",
        "focus": "none",
        "filter by environment": "none",
        "exit(0) in a hook": "none",
        "retry that passes": "part of the plan",
        "import error": "the build fails",
    },
    given={"exit(0) in a test": "cannot be known"},
)
GTEST = Row(
    name="gtest",
    needs=("program g++", "file /usr/include/gtest/gtest.h"),
    toml='command = ["build/first.cpp", "build/<SECOND>"]\n',
    path="<FILE>.cpp",
    unit="[<FILE>.cpp] <File>.<Name>",
    file='#include "act.h"\n<TOP>\nstruct <File> : testing::Test { <HOOK> };\n<CASES>',
    case='TEST_F(<File>, <Name>) { act("<NAME>"); }\n',
    hook='static void SetUpTestSuite() { act("hook"); }',
    files={"act.h": "<table/act.h>"},
    build="""mkdir -p build && for file in *.cpp; do
  sum=$(cat "$file" act.h | sha1sum | cut -c1-20)
  [ -e "<CACHE>/$sum" ] || g++ -o "<CACHE>/$sum" "$file" -lgtest -lgtest_main -pthread || exit
  ln -sf "<CACHE>/$sum" "build/$file"
done""",
    odd="odd ::[x] $(y) ü.cpp",
    by_environ=Setting("", environ={"GTEST_FILTER": "*.Three"}),
    none={
        "dry run": "none",  # by the environment; `--gtest_list_tests` is refused
        "results withheld": "not possible",
        "focus": "none",
        "filter by configuration": "none",
        "retry that passes": "none",
        "import error": "the build fails",
    },
    given={"filter by environment": "passed", "stdout closed": "failed"},
)

JUNIT_CASE = '  @Tag("<NAME>") @Test void <NAME>() throws Exception { Act.at("<NAME>"); }\n'
DRY_RUN = "junit.platform.execution.dryRun.enabled"


def pom_with(setting: str) -> str:
    """Return the project's pom.xml with a setting of Surefire."""
    plugin = "<version>${surefire}</version>"
    text = (PROJECTS / "maven/pom.xml").read_text()
    return text.replace(plugin, f"{plugin}<configuration>{setting}</configuration>")


MAVEN = Row(
    name="maven",
    needs=("maven",),
    toml='command = ["mvn", "-o", "-B", "-q", "test"]\n',
    path="src/test/java/p/<File>Test.java",
    unit="p.<File>Test",
    file="package p;\nimport org.junit.jupiter.api.*;\n"
    "class <File>Test {\n  <TOP>\n<HOOK><CASES>}\n",
    case=JUNIT_CASE,
    hook='  @BeforeAll static void hook() throws Exception { Act.at("hook"); }\n',
    files={"pom.xml": "<maven/pom.xml>", "src/test/java/p/Act.java": "<table/Act.java>"},
    environ={"MAVEN_OPTS": "-XX:TieredStopAtLevel=1"},
    withheld='exec "$@" -Dmaven.test.additionalClasspath=',
    broken="Missing missing;",
    odd="src/test/java/p/OddÄö_日本Test.java",
    dry_run=Setting("", {"src/test/resources/junit-platform.properties": f"{DRY_RUN}=true\n"}),
    by_file=Setting(
        "pom.xml: excludedGroups", {"pom.xml": pom_with("<excludedGroups>two</excludedGroups>")}
    ),
    by_environ=Setting(
        "excludedGroups", environ={"MAVEN_OPTS": "-XX:TieredStopAtLevel=1 -DexcludedGroups=two"}
    ),
    retry={"MAVEN_OPTS": "-XX:TieredStopAtLevel=1 -Dsurefire.rerunFailingTestsCount=1"},
    none={"focus": "none"},
    given={"dry run": "NOTHING RAN", "stdout closed": "failed"},
)
PHPUNIT_XML = """<phpunit bootstrap="act.php"><testsuites><testsuite name="all">
<directory>tests</directory></testsuite></testsuites><MORE></phpunit>
"""
PHPUNIT = Row(
    name="phpunit",
    needs=("program phpunit",),
    toml='command = ["phpunit"]\n',
    path="tests/<File>Test.php",
    unit="tests/<File>Test.php",
    file="<?php\n<TOP>\nclass <File>Test extends PHPUnit\\Framework\\TestCase\n{\n<HOOK><CASES>}\n",
    case='  /** @group <NAME> */\n  public function test<Name>(): void { act($this, "<NAME>"); }\n',
    hook='  public static function setUpBeforeClass(): void { act(null, "hook"); }\n',
    files={"phpunit.xml": PHPUNIT_XML.replace("<MORE>", ""), "act.php": "<table/act.php>"},
    withheld="for word; do shift; case $word in --log-teamcity=*) ;; "
    '*) set -- "$@" "$word" ;; esac; done; exec "$@"',
    broken='require "missing.php";',
    odd="tests/Odd ::[x] $(y) 'z' üTest.php",
    by_file=Setting(
        "two",
        {
            "phpunit.xml": PHPUNIT_XML.replace(
                "<MORE>", "<groups><exclude><group>two</group></exclude></groups>"
            )
        },
    ),
    given={"stdout closed": "failed"},
    none={
        "dry run": "part of the plan",
        "focus": "none",
        "filter by environment": "none",
        "retry that passes": "none",
    },
)

UNLESS_TWO = (
    "<RunSettings><RunConfiguration><TestCaseFilter>FullyQualifiedName!=Shop.FirstTests.Two"
    "</TestCaseFilter></RunConfiguration></RunSettings>\n"
)
XUNIT = Row(
    name="xunit",
    framework="dotnet",
    toml='command = ["dotnet", "test", "--settings", "my.runsettings"]\n',
    path="<File>Tests.cs",
    unit="Shop.<File>Tests.<Name>",
    file="namespace Shop;\npublic class <File>Tests {\n<HOOK><CASES>}\n",
    case='    [Fact] public void <Name>() => Act.At("<NAME>");\n',
    hook='    public <File>Tests() => Act.At("hook");\n',
    files={
        "Shop.Tests.csproj": "<Project/>\n",
        "my.runsettings": "<RunSettings/>\n",
        "dotnet": f'#!/bin/sh\nexec {sys.executable} "{PLAYER}" "$@"\n',
    },
    build="chmod +x dotnet && ./dotnet build xunit",
    environ={"PATH": "<FOLDER>:<PATH>"},
    odd="odd ::[x] $(y) 'z' ü.cs",
    by_file=Setting("FirstTests.Two", {"my.runsettings": UNLESS_TWO}),
    none={
        **dict.fromkeys(("dry run", "focus", "filter by environment"), "none"),
        "results withheld": "not possible",
        "retry that passes": "not reported",
        "import error": "the build fails",
    },
)
TEST, METHOD = (XUNIT.case.replace("Fact", name) for name in ("Test", "TestMethod"))
NUNIT = replace(XUNIT, name="nunit", case=TEST, build=XUNIT.build.replace("xunit", "nunit"))
MSTEST = replace(XUNIT, name="mstest", case=METHOD, build=XUNIT.build.replace("xunit", "mstest"))
MTP = replace(
    XUNIT,
    name="mtp",
    toml='command = ["dotnet", "test"]\n',
    build=XUNIT.build.replace("xunit", "xunit3"),
    by_file=None,
    none={**XUNIT.none, "filter by configuration": "none with Microsoft.Testing.Platform"},
)

COMMAND = Row(
    name="command",
    toml='list = ["python3", "runner.py", "list"]\ncommand = ["python3", "runner.py"]\n',
    path="<FILE>.py",
    unit="<FILE>/<NAME>",
    file="from acting import act\n<TOP>\n<HOOK><CASES>",
    case='def <NAME>(): act("<NAME>")\n',
    hook='hook = lambda: act("hook")\n',
    files={"acting.py": "<table/acting.py>", "runner.py": "<table/runner.py>"},
    withheld='CIGUARD_RECORD_FILE=/dev/null exec "$@"',
    broken="import no_such_module",
    odd="odd ::[x] $(y) 'z' ü.py",
    dry_run=Setting("", environ={"DRY": "1"}),
    by_environ=Setting("first/two", environ={"ONLY": "first/one"}),
    none={"focus": "up to your program", "filter by configuration": "up to your program"},
    given={"exit(0) in a hook": "INCOMPLETE"},
)

ROWS: Final = {
    row.name: row
    for row in (
        *(PYTEST, JEST, VITEST, PLAYWRIGHT, MOCHA, NODE_TEST, RSPEC, MINITEST, GO_ROW),
        *(NEXTEST_ROW, CTEST, GTEST, MAVEN, XUNIT, NUNIT, MSTEST, MTP, PHPUNIT, COMMAND),
    )
}
