"""Rewrite ciguard's actions for a GitHub Enterprise Server with version 3 of the artifact actions.

Run it in a clone of the server's mirror: python3 .github/install/enterprise_server.py

github.com refuses version 3, also in a step that does not run, so no action can have both. Version
3 is a tag: only the server knows its commits. It sees the artifacts of all attempts of its own run,
and knows no pattern: it downloads all artifacts, and what matches is moved.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
STEP = re.compile(
    r"    - uses: actions/(upload|download)-artifact@[0-9a-f]{40} .*\n((?:      .*\n)*)"
)
NEWER = re.compile(r"        (?:run-id|github-token|overwrite): .*\n")
PINNED = "    - uses: actions/{}-artifact@v3 # zizmor: ignore[unpinned-uses]\n"
MOVE = """\
    - {condition}shell: bash
      env:
        _CIGUARD_PATTERN: {pattern}
        _CIGUARD_TARGET: {target}
      run: |
        mkdir -p "$_CIGUARD_TARGET"
        shopt -s nullglob
        IFS= # a blank in the pattern begins no other path
        for folder in "$_CIGUARD_TARGET-all/"$_CIGUARD_PATTERN; do
          mv "$folder" "$_CIGUARD_TARGET"
        done
        rm -rf "$_CIGUARD_TARGET-all"
"""


def rewritten(step: re.Match[str]) -> str:
    kind, keys = step[1], NEWER.sub("", step[2])
    pattern = re.search(r"        pattern: (.*)\n", keys)
    if pattern is None:
        return PINNED.format(kind) + keys
    target = re.search(r"        path: (.*)\n", keys)
    condition = re.search(r"if: .*\n      ", keys)
    download = keys.replace(pattern[0], "").replace(target[0], target[0].rstrip() + "-all\n")
    return (PINNED.format(kind) + download) + MOVE.format(
        condition=condition[0] if condition else "", pattern=pattern[1], target=target[1]
    )


for path in sorted((*ROOT.glob("action.yml"), *ROOT.glob("actions/*/action.yml"))):
    text = path.read_text("utf-8")
    path.write_text(STEP.sub(rewritten, text), "utf-8")
