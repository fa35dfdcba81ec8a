"""Which commands of a script run tests."""

from __future__ import annotations

import json

import pytest

from ciguard.workflow.test_commands import (
    find_test_commands,
    find_test_steps,
    only_file,
    read_tasks,
    split_commands,
    without_retry,
)

RUN_TESTS = {
    "pytest": """
        pytest -q # all of them
        python -m pytest tests
        python3.12 -X dev -W error -m pytest
        python -I -m pytest
        CI=1 NAME="a b" pytest
        pip install tox && pytest
        if true; then pytest; fi
        timeout 30m pytest
        xvfb-run -a -s "-screen 0 1024x768x24" pytest
        env DEBUG=1 pytest
        coverage run -p -m pytest
        uv run pytest
        uv run --group test --extra dev python -m pytest
        uv run --frozen --no-sync coverage run -m pytest
        poetry run python -m pytest
        pdm run pytest
        conda run -n test pytest
        hatch test --cover
        sh -c "pytest -x"
        ${{ matrix.x && 'a|b' }} ; pytest
    """,
    "": """
        tox
        tox -e py312
    tox -- -n 4
        python -m tox run -e py,lint
        uvx --with tox-uv tox
        pipx run nox
        nox -s tests-3.12
        make test
        make -C sub -j4 check
        make test-unit
        pdm run test
        hatch run +py=3.12 test:run
        pixi run -e py312 test
        poe test
        ./run-tests.sh
        bash ci/run_tests.sh -v
        cd sub && ../run_tests
        python runtests.py
    """,
    "npm": "npm test\nnpm run test:unit\nnpm run-script test",
    "pnpm": "pnpm test\npnpm run test",
    "jest": """
        npx jest --ci
        yarn jest --ci
        cross-env CI=1 nyc jest
        node --trace-deprecation node_modules/jest-cli/bin/jest --ci
        bun --preload ./test/a.js ./node_modules/jest/bin/jest.js
    """,
    "vitest": "npx vitest run",
    "go test": "go test ./...",
    "dotnet test": "dotnet test shop.sln",
    "ctest": "ctest --test-dir build",
    "cargo test": "cargo +nightly test",
    "cargo nextest": "cargo nextest run",
    "rspec": "bundle exec rspec",
    "maven": "mvn -B test",
    "gradle": "./gradlew check",
    "unittest": "python -m unittest discover",
}
OTHERS = """
    pip install pytest
    python -m pip install tox
    pipx install nox
    uv tool install nox
    uv sync --group test
    poetry install --with test
    conda install -y pytest
    apt-get install -y pytest
    make test-deps
    make -C tests build
    ./install-test-deps.sh
    tox -e lint
    tox -e docs,mypy
    tox --notest
    tox -n -e benchmark
    nox -s lint
    npm run lint
    yarn test:size
    node ./test/size.js
    echo pytest
    pytest --version
    # pytest
    docker build -t test .
    docker compose -f docker/test.yml up
    uv run mypy tests
    poetry run ruff tests
    python tests/download_data.py
    git clone https://example.org/test.sh
    cat tests/test_shop.py
    codecov -F test
"""
TEST_LINES = [
    (framework, line.strip())
    for framework, text in RUN_TESTS.items()
    for line in text.strip().splitlines()
]


@pytest.mark.parametrize(("framework", "line"), TEST_LINES)
def test_command_that_runs_tests_is_found(framework: str, line: str) -> None:
    assert [one.framework for one in find_test_commands(line)] == [framework]


@pytest.mark.parametrize("line", [line.strip() for line in OTHERS.strip().splitlines()])
def test_other_command_is_not_found(line: str) -> None:
    assert find_test_commands(line) == ()


@pytest.mark.parametrize(
    "line",
    [
        "docker run --rm -v a:b image pytest",
        "docker compose run web make test",
        "sudo pytest",
        "env -i pytest",
    ],
)
def test_command_without_the_variables_of_the_job_is_marked(line: str) -> None:
    (found,) = find_test_commands(line)
    assert found.drops_variables


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("npx jest --testMatch '<rootDir>/b/b.test.js' --ci", "b/b.test.js"),
        ("yarn vitest run --coverage ./b/b.test.js", "b/b.test.js"),
        ("node --test a.test.js", "a.test.js"),
        ("jest a.test.js b/b.test.js", ""),
        ("jest -i a.test.js b/b.test.js", ""),
        ("jest test.js", ""),
        ("vitest run no.test.js", ""),
        ("vitest run --config vitest.config.ts", ""),
        ("mocha --require test-setup.js", ""),
        ("node --import ./test-setup.js --test", ""),
        ("node --test-reporter ./test-setup.js --test", ""),
    ],
)
def test_only_file_of_a_command_is_a_test_file_that_exists(line: str, file: str) -> None:
    tracked = ["a.test.js", "b/b.test.js", "vitest.config.ts", "test-setup.js"]
    assert only_file(find_test_commands(line), tracked) == file


def test_script_is_split_into_commands_and_words() -> None:
    script = "a 'b c' \"d\\\"e\" \\\r\n  f # g\n(h) && i|j; ${{ k || 'l m' }}n; o\\ #p; \\\\ # q"
    assert list(split_commands(script)) == [
        *(["a", "b c", 'd\\"e', "f"], ["h"], ["i"], ["j"], ["${{ k || 'l m' }}n"]),
        *(["o #p"], ["\\"]),
    ]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("script", ["'" * 100_000, "${{" * 50_000, "uv run -a b " * 20_000, "\\"])
def test_scanner_ends_soon_on_any_script(script: str) -> None:
    find_test_commands(script)


def test_steps_with_test_commands_are_found() -> None:
    jobs = {
        "called": {"uses": "./.github/workflows/test.yml"},
        "unit": {"steps": [{"uses": "a/b@v1"}, {"run": "make"}, {"run": "make\npytest"}]},
        "broken": {"steps": "none"},
    }
    (found,) = find_test_steps({"jobs": jobs})
    assert (found.job, found.number, found.commands[0].words) == ("unit", 3, "pytest")


def test_other_alternatives_are_no_retries() -> None:
    script = "a || echo a\npip install a || pip install -U a\n||\na ||\n|| a\na || a; b"
    assert without_retry(script) == script


SCRIPTS = {
    "test": "yarn lint && yarn cover:base",
    "cover:base": "node node_modules/jest-cli/bin/jest --ci",
    "cover:unit": "cross-env CI=1 yarn cover:base --coverage",
    "cover:a": "yarn cover:unit",
    "all": "mocha && jest",
    "script": "./scripts/test.sh",
    "all:a": "jest || jest -f",
    "loop": "yarn loop && yarn loop",
    "test:own": "node run.js",
}


@pytest.mark.parametrize(
    ("step", "commands"),
    [
        ({"run": "make js"}, [("make js", "jest")]),
        ({"run": "npm test -- -i"}, [("npm test -- -i", "jest")]),
        (
            {"run": "CI=1 timeout 9 yarn run cover:unit"},
            [("CI=1 timeout 9 yarn run cover:unit", "jest")],
        ),
        ({"run": "yarn cover:${{ matrix.part }}"}, [("yarn cover:${{ matrix.part }}", "jest")]),
        ({"run": "pnpm all"}, [("mocha", "mocha"), ("jest", "jest")]),
        (
            {"run": "yarn all:${{ matrix.part }} --json || yarn all:${{ matrix.part }} -f --json"},
            [("yarn all:${{ matrix.part }} --json", "jest")],
        ),
        ({"run": "yarn script"}, [("yarn script", "npm")]),
        ({"run": "yarn test:own"}, [("yarn test:own", "yarn")]),
        ({"run": "npm test", "working-directory": "sub"}, [("npm test", "npm")]),
        ({"run": "cd sub && npm test"}, [("npm test", "npm")]),
        ({"run": "npm run test --workspace a"}, [("npm run test --workspace a", "npm")]),
    ],
)
def test_task_is_read_as_what_it_runs(
    step: dict[str, str], commands: list[tuple[str, str]]
) -> None:
    texts = {
        "package.json": json.dumps({"scripts": SCRIPTS}),
        "Makefile": "js:\n\tyarn cover:unit\n",
    }
    steps = [step, {"run": "yarn lint"}, {"run": "echo yarn cover:unit"}, {"run": "yarn loop"}]
    job = {"strategy": {"matrix": {"part": ["a", "b"]}}, "steps": steps}
    (found,) = find_test_steps({"jobs": {"a": job}}, read_tasks(texts.__getitem__))
    assert [(command.words, command.framework) for command in found.commands] == commands


@pytest.mark.parametrize(
    ("names", "count"), [(["docs", "pylint,mypy-tests"], 0), (["docs", "py312"], 1), ([], 1)]
)
def test_step_of_tox_runs_what_the_matrix_names(names: list[str], count: int) -> None:
    keys = ("TOXENV", "TOX_ENV", "TOXENV")
    matrix = {"include": [{"env": {key: name}} for key, name in zip(keys, names, strict=False)]}
    job = {"strategy": {"matrix": matrix}, "steps": [{"run": "tox"}]}
    assert len(find_test_steps({"jobs": {"a": job}})) == count
