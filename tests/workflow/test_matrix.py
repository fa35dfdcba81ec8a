"""Matrices, each with the combinations that GitHub's documentation and parser make of it."""

from __future__ import annotations

import json

import pytest

from ciguard.errors import InputError
from ciguard.workflow.matrix import read_matrix

# By name: the block as it stands below `matrix:`, and the combinations as YAML flow mappings.
CASES = {
    # From GitHub's documentation of jobs.<job_id>.strategy.matrix.
    "one axis": ("version: [10, 12, 14]", ["{version: 10}", "{version: 12}", "{version: 14}"]),
    "two axes, the last fastest": (
        "os: [ubuntu, windows]\nversion: [10, 12, 14]",
        [f"{{os: {os}, version: {v}}}" for os in ("ubuntu", "windows") for v in (10, 12, 14)],
    ),
    "an axis of objects": (
        "os: [ubuntu]\nnode: [{version: 14}, {version: 20, env: A=1}]",
        ["{os: ubuntu, node: {version: 14}}", "{os: ubuntu, node: {version: 20, env: A=1}}"],
    ),
    "include of every sort": (
        """
fruit: [apple, pear]
animal: [cat, dog]
include:
  - color: green
  - color: pink
    animal: cat
  - fruit: apple
    shape: circle
  - fruit: banana
  - fruit: banana
    animal: cat
""",
        [
            "{fruit: apple, animal: cat, color: pink, shape: circle}",
            "{fruit: apple, animal: dog, color: green, shape: circle}",
            "{fruit: pear, animal: cat, color: pink}",
            "{fruit: pear, animal: dog, color: green}",
            "{fruit: banana}",
            "{fruit: banana, animal: cat}",
        ],
    ),
    "include expands one combination": (
        "os: [w, u]\nnode: [14, 16]\ninclude:\n  - {os: w, node: 16, npm: 6}",
        [
            "{os: w, node: 14}",
            "{os: w, node: 16, npm: 6}",
            "{os: u, node: 14}",
            "{os: u, node: 16}",
        ],
    ),
    "include adds one": (
        "os: [m, w]\nversion: [12, 14]\ninclude:\n  - {os: w, version: 17}",
        [
            "{os: m, version: 12}",
            "{os: m, version: 14}",
            "{os: w, version: 12}",
            "{os: w, version: 14}",
            "{os: w, version: 17}",
        ],
    ),
    "include alone": (
        "include:\n  - {site: prod, dc: a}\n  - {site: staging, dc: b}",
        ["{site: prod, dc: a}", "{site: staging, dc: b}"],
    ),
    "exclude by a part": (
        """
os: [m, w]
version: [12, 14, 16]
environment: [staging, production]
exclude:
  - {os: m, version: 12, environment: production}
  - {os: w, version: 16}
""",
        [
            "{os: m, version: 12, environment: staging}",
            "{os: m, version: 14, environment: staging}",
            "{os: m, version: 14, environment: production}",
            "{os: m, version: 16, environment: staging}",
            "{os: m, version: 16, environment: production}",
            "{os: w, version: 12, environment: staging}",
            "{os: w, version: 12, environment: production}",
            "{os: w, version: 14, environment: staging}",
            "{os: w, version: 14, environment: production}",
        ],
    ),
    # From the parser: order, comparison and what is looked at.
    "include comes after exclude": (
        "a: [1, 2]\nb: [x]\nexclude: [{a: 1}]\ninclude: [{a: 1, b: x}]",
        ["{a: 2, b: x}", "{a: 1, b: x}"],
    ),
    "an include without axes extends all": (
        "a: [1, 2]\ninclude: [{c: y}]",
        ["{a: 1, c: y}", "{a: 2, c: y}"],
    ),
    "a later include overwrites what an earlier one added": (
        "a: [1]\ninclude: [{c: y}, {c: z}]",
        ["{a: 1, c: z}"],
    ),
    "an include extends no combination that an include made": (
        "a: [1]\ninclude: [{a: 2}, {a: 2, c: y}]",
        ["{a: 1}", "{a: 2}", "{a: 2, c: y}"],
    ),
    "axes of an added combination come first": (
        "a: [1]\nb: [2]\ninclude: [{c: y, b: 9}]",
        ["{a: 1, b: 2}", "{b: 9, c: y}"],
    ),
    "a part of the axes extends several": (
        "a: [1, 2]\nb: [x, y]\ninclude: [{b: y, c: z}]",
        ["{a: 1, b: x}", "{a: 1, b: y, c: z}", "{a: 2, b: x}", "{a: 2, b: y, c: z}"],
    ),
    "text matches without case": (
        "os: [Ubuntu, Windows]\nexclude: [{os: UBUNTU}]",
        ["{os: Windows}"],
    ),
    "keys match without case": (
        "OS: [u, w]\nexclude: [{os: u}]\ninclude: [{os: w, c: 1}]",
        ["{OS: w, c: 1}"],
    ),
    "a number matches its text": ("v: [3.8, 3.9]\nexclude: [{v: '3.8'}]", ["{v: 3.9}"]),
    "a text matches its number": ("v: ['1.0', '2']\nexclude: [{v: 1}]", ["{v: '2'}"]),
    "true matches one": ("v: [true, 2]\nexclude: [{v: 1}]", ["{v: 2}"]),
    "null matches zero": ("v: [0, 1]\nexclude: [{v: null}]", ["{v: 1}"]),
    "an empty text matches zero": ("v: ['', 1]\nexclude: [{v: 0}]", ["{v: 1}"]),
    "null matches no text but an empty one": (
        "v: ['null', '']\nexclude: [{v: null}]",
        ["{v: 'null'}"],
    ),
    "an object matches by its parts": (
        "c: [{a: 1, b: 2}, {a: 1, b: 3}]\nexclude: [{c: {b: 3}}]",
        ["{c: {a: 1, b: 2}}"],
    ),
    "a list matches by its first items": (
        "c: [[1, 2], [1, 3], [1]]\nexclude: [{c: [1, 3]}]",
        ["{c: [1, 2]}", "{c: [1]}"],
    ),
    "an object that is asked for nothing matches": (
        "c: [{a: 1}, {a: 2}]\nd: [1, 2]\nexclude: [{c: {}, d: 1}]",
        ["{c: {a: 1}, d: 2}", "{c: {a: 2}, d: 2}"],
    ),
    "an include by an object": (
        "os: [{name: u}, {name: w}]\ninclude: [{os: {name: w}, sh: pwsh}]",
        ["{os: {name: u}}", "{os: {name: w}, sh: pwsh}"],
    ),
    # From the YAML that GitHub reads: version 1.2.
    "3.10 is 3.1": ("v: [3.10, '3.10']", ["{v: 3.1}", "{v: '3.10'}"]),
    "on and yes are text": ("v: [on, yes, true]", ["{v: 'on'}", "{v: 'yes'}", "{v: true}"]),
    "a leading zero is decimal": ("v: [010]", ["{v: 10}"]),
    "octal and hexadecimal": ("v: [0o17, 0xff]", ["{v: 15}", "{v: 255}"]),
    "a clock time is text": ("v: [22:30]", ["{v: '22:30'}"]),
    "a date is text": ("v: [2026-11-01]", ["{v: '2026-11-01'}"]),
    "an underscore is text": ("v: [1_000]", ["{v: '1_000'}"]),
    "an exponent is a number": ("v: [1e3]", ["{v: 1000.0}"]),
    "an alias": ("a: &x [1, 2]\nb: *x\nexclude: [{a: 2}]", ["{a: 1, b: 1}", "{a: 1, b: 2}"]),
    "as JSON": ('{"os":["u"],"include":[{"os":"u","x":true}]}', ["{os: u, x: true}"]),
    "comments, and a list at the indent of its key": (
        "# versions\nv:\n- 1  # old\n- 2\n",
        ["{v: 1}", "{v: 2}"],
    ),
    "empty lists": ("v: [1]\ninclude: []\nexclude: []", ["{v: 1}"]),
    "nothing": ("", ["{}"]),
    "object shards": (
        "shard: [{name: a, filter: 'X&Y'}, {name: b, filter: 'Z|W'}]\nos: [w]",
        ["{shard: {name: a, filter: 'X&Y'}, os: w}", "{shard: {name: b, filter: 'Z|W'}, os: w}"],
    ),
}
REFUSED = {
    "a list": ("[1, 2]", "a matrix is a mapping, not a list"),
    "a text": ("linux", "a matrix is a mapping, not text"),
    "an axis of one value": ("v: 3", "axis 'v' is no list of values"),
    "an axis without a value": ("v: []", "axis 'v' is no list of values"),
    "exclude of what is no axis": ("v: [1]\nexclude: [{w: 1}]", "exclude names 'w'"),
    "an empty exclude": ("v: [1]\nexclude: [{}]", "an entry of exclude is no mapping"),
    "include that is a text": ("v: [1]\ninclude: all", "include is no list"),
    "include of texts": ("v: [1]\ninclude: [all]", "an entry of include is no mapping"),
    "nothing is left": ("v: [1]\nexclude: [{v: 1}]", "no combination is left"),
    "no axis at all": ("{}", "no combination is left"),
    "one twice": ("v: [1, 1]", "2 combinations have the same values: 1"),
    "an include twice": ("include: [{a: 1}, {a: 1}]", "2 combinations have the same values"),
    "300 combinations": (f"v: {list(range(300))}", "300 combinations; GitHub runs at most 256"),
    "a product of millions": (
        "\n".join(f"a{n}: {list(range(100))}" for n in range(9)),
        "1,000,000,000,000,000,000 combinations",
    ),
    "10 MB": ("v: [" + "1, " * 3_500_000 + "1]", "more than 1,048,576"),
    "an explosion of aliases": (
        "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + "\n".join(
            f"{b}: &{b} [{', '.join(['*' + a] * 10)}]"
            for a, b in zip("abcdefg", "bcdefgh", strict=True)
        ),
        "more than 200,000 values by aliases",
    ),
    "an alias of itself": ("a: &a [*a]", "more than 200,000 values by aliases"),
    "no YAML": ("v: [1", "not YAML"),
    "two documents": ("v: [1]\n---\nv: [2]", "not YAML"),
    "a tag of Python": ("v: !!python/name:os.system x", "not YAML"),
    "a key twice": ("v: [1]\nV: [2]", "the key V is there twice at line 2"),
    "nesting without end": ("[" * 5000, "not YAML"),
}


@pytest.mark.parametrize("name", CASES)
def test_matrix_has_the_combinations_of_github(name: str) -> None:
    text, expected = CASES[name]
    found = [json.dumps(dict(one.values)) for one in read_matrix(text)]
    assert found == [json.dumps(one_value(text)) for text in expected]


def one_value(text: str) -> object:
    """The value of a flow mapping, by way of a matrix with nothing else in it."""
    if text == "{}":
        return {}
    (one,) = read_matrix(f"include: [{text}]")
    return dict(one.values)


@pytest.mark.parametrize("name", REFUSED)
def test_matrix_that_github_or_we_cannot_run_is_refused(name: str) -> None:
    text, what = REFUSED[name]
    with pytest.raises(InputError) as caught:
        read_matrix(text)
    assert what in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("v: [3.8, true, a b]", ["3.8", "true", "a b"]),
        ("os: [{name: u, bits: 64}]\nv: [[1, 2]]", ["u, 64, 1, 2"]),
        ("v: [1]\ninclude: [{v: 1, extra: x}, {v: 2, extra: y}]", ["1", "2, y"]),
        ("v: ['', 1]\ninclude: [{v: '', n: a}]", ["a", "1"]),
        ("v: ['1', 1]\ninclude: [{v: 1, e: a}]", None),
        ("", [""]),
    ],
)
def test_label_is_that_of_the_job_name(text: str, labels: list[str] | None) -> None:
    if labels is None:  # text and number look alike, and both got the same extra value
        with pytest.raises(InputError, match="the same values: 1, a"):
            read_matrix(text)
    else:
        assert [one.label for one in read_matrix(text)] == labels
