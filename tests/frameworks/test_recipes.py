"""The recipes of docs/how-to/framework-recipes.md, as they stand there, with the real tools."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from frameworks.loop import Loop, bad, is_whole, lay_out, needs_program

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "framework-recipes.md"
# What Bazel 4 fetches for any test, and no test here uses.
STUBS = {
    "remote_coverage_tools/BUILD": 'package(default_visibility = ["//visibility:public"])\n'
    'filegroup(name = "coverage_report_generator")\nfilegroup(name = "lcov_merger")\n',
    "rules_cc/cc/defs.bzl": "".join(
        f"cc_{name} = native.cc_{name}\n"
        for name in ("library", "binary", "test", "import", "toolchain", "toolchain_suite")
    ),
    "rules_java/java/defs.bzl": "".join(
        f"java_{name} = native.java_{name}\n"
        for name in (
            *("library", "binary", "test", "import", "toolchain", "runtime", "plugin"),
            "package_configuration",
        )
    ),
}


def recipe(title: str, language: str) -> str:
    """The block of a language below a title."""
    section = PAGE.read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    (found,) = re.findall(rf"```{language}\n(.*?)```", section, flags=re.DOTALL)
    return str(found)


@pytest.fixture
def gradle(tmp_path: Path) -> Loop:
    needs_program("gradle", "Debian's gradle")
    tmp_path.joinpath("ciguard.gradle").write_text(recipe("Gradle", "groovy"))
    toml = recipe("Gradle", "toml").replace('"./gradlew"', '"gradle", "--offline"')
    return lay_out(tmp_path, "gradle", f'{toml}timeout = "60s"\n')


@pytest.mark.soak
@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("", {}),
        ("exit0", {("p.EndsTest", ""): "crash"}),
        ("exit3", {("p.EndsTest", ""): "crash"}),
        ("hang", {("p.EndsTest", ""): "timeout"}),
    ],
)
def test_gradle_names_the_class_that_ends_its_jvm(
    gradle: Loop, way: str, expected: dict[tuple[str, str], str]
) -> None:
    """With exit code 0 Gradle reports a success."""
    assert gradle.planned() == ["p.AddsTest", "p.EndsTest", "p.MoreTest"]
    verdict = gradle.run(WAY=way, **({} if way else {"FAIL": "1"}))
    is_whole(verdict, gradle)
    assert bad(verdict) == (expected if way else {("p.AddsTest", "fails"): "failed"})
    results = [line for line in gradle.record_lines() if line["type"] == "result"]
    cases = {line["case"]: line["outcome"] for line in results if line["unit"] == "p.AddsTest"}
    assert cases == {"adds": "passed", "fails": "passed" if way else "failed", "later": "skipped"}


@pytest.mark.soak
def test_gradle_without_the_script_is_incomplete(gradle: Loop) -> None:
    (gradle.folder / "ciguard.gradle").write_text("")
    verdict = gradle.run()
    assert verdict["verdict"] == "incomplete"
    assert len(verdict["missing"]) == len(gradle.planned())


@pytest.fixture
def bazel(tmp_path: Path) -> Loop:
    needs_program("bazel", "Debian's bazel-bootstrap")
    options = []
    for name, text in STUBS.items():
        file = tmp_path / name
        repository = tmp_path / Path(name).parts[0]
        file.parent.mkdir(parents=True)
        for empty in (repository / "WORKSPACE", repository / "BUILD", file.parent / "BUILD"):
            empty.touch()
        file.write_text(text)
        options.append(f"test --override_repository={repository.name}={repository}\n")
    work = tmp_path / "work"
    work.mkdir()
    root = f"startup --output_user_root={tmp_path}/bazel\n"
    environ = "test --test_env=FAIL --test_env=WAY --test_timeout=10\n"
    (work / ".bazelrc").write_text(f"{root}{''.join(options)}{environ}")
    (work / "ciguard_bazel.py").write_text(recipe("Bazel", "python"))
    return lay_out(work, "bazel", recipe("Bazel", "toml"))


@pytest.mark.soak
def test_bazel_reports_each_target(bazel: Loop) -> None:
    assert bazel.planned() == ["//shop:adds", "//shop:fails", "//shop:waits"]
    verdict = bazel.run(FAIL="1")
    is_whole(verdict, bazel)
    assert bad(verdict) == {("//shop:fails", ""): "failed"}
    verdict = bazel.run(WAY="hang")
    is_whole(verdict, bazel)
    (failure,) = verdict["failures"]
    assert (failure["unit"], failure["ending"]) == ("//shop:waits", "timeout")
    assert bad(bazel.run(WAY="kill")) == {("//shop:waits", ""): "failed"}
    assert bazel.run()["verdict"] == "passed"


@pytest.mark.soak
def test_bazel_target_that_cannot_be_built_is_incomplete(bazel: Loop) -> None:
    (bazel.folder / "shop" / "adds.sh").unlink()
    verdict = bazel.run()
    assert verdict["verdict"] == "incomplete"
    assert [one["unit"] for one in verdict["missing"]] == ["//shop:adds"]


def test_program_for_cypress_is_javascript(tmp_path: Path) -> None:
    needs_program("node", "Node.js")
    program = tmp_path / "ciguard-cypress.cjs"
    program.write_text(recipe("Cypress", "js"))
    subprocess.run(["node", "--check", program], check=True)
