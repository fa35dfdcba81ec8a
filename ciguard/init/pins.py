"""The actions that a generated workflow uses, pinned by commit: a tag can move, a commit cannot.

Read from the tags of the actions' repositories, 2026-11.
"""

from __future__ import annotations

from typing import Final

ACTIONS: Final = {
    "checkout": "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1",
    "download_artifact": (
        "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1"
    ),
    "setup_python": "actions/setup-python@5fda3b95a4ea91299a34e894583c3862153e4b97 # v7.0.0",
    "upload_artifact": "actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f # v7.0.0",
}
# On a GitHub Enterprise Server, which has artifacts of generation 3 only: actions in the repository
# around that server's own, of which only it knows the commits.
LOCAL: Final = {
    "download_artifact": "./.github/actions/ciguard-download",
    "upload_artifact": "./.github/actions/ciguard-upload",
}
LOCAL_FILES: Final = {
    ".github/actions/ciguard-download/action.yml": "download_v3.yml.j2",
    ".github/actions/ciguard-upload/action.yml": "upload_v3.yml.j2",
}
