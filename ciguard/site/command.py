"""The command `ciguard site`: write static pages of histories, by the service's templates.

Templates link addresses of the service. Each page of the site has such an address, and a link to it
becomes a relative one to its file; a link to a run becomes GitHub's, and any other link plain text.
Autoescaping leaves no quotation mark in a text, so that none is taken for a link.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import zip_longest
from typing import ClassVar, Final

import click

from ciguard import console
from ciguard.config.invocation import Invocation
from ciguard.errors import ExitCode, InputError, UsageError
from ciguard.github.repository_ref import SERVER_URL
from ciguard.guard.view import owner_text
from ciguard.history.stores import load, open_store
from ciguard.render import pages
from ciguard.render.templates import environment, template_folder
from ciguard.site.read_model import base_history, base_state, repository_pages, run_rows
from ciguard.sources import local
from ciguard.text import count_of, size

MARKER: Final = "ciguard-site.json"  # of a folder, or of published pages, that a site may replace
STATIC: Final = "-/static/"  # no owner's name begins with a hyphen
NO_VIEWER: Final = {"may_act": False, "login": "", "is_stale": False}
_REPOSITORY: Final = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)  # leaves no folder
_LINK: Final = re.compile(r' (href|src|data-source)="(/[^"#]*)(#[^"]*)?"')
_REPORTED: Final = re.compile(  # a page of `ciguard report`, by the link to its run
    rb'<dt>run</dt><dd><a href="[^"]*/([^"/]+/[^"/]+)/actions/runs/(\d+)(?:/attempts/(\d+))?"'
)
_RUN: Final = re.compile(r"(/[^/]+/[^/]+/)runs/([0-9]+)/[0-9]+")


@dataclass(frozen=True, slots=True)
class PageVisit:
    """The page at an address, in the place of the request that templates of the service ask."""

    is_live: ClassVar[bool] = False
    query: ClassVar[Mapping[str, str]] = {}

    at: str

    def address(self, **changes: str | int | None) -> str:
        return pages.page_address(self.at.partition("?")[0], changes)

    def format_address(self, form: str) -> str:
        return f"/{file_of(self.at, form)}"


@click.command()
@click.option("--out", "folder", metavar="FOLDER", required=True, help="Folder of the pages.")
@click.option(
    *("--history", "locations"),
    metavar="FILE|branch:NAME|URL",
    multiple=True,
    help="Past runs (default: history.store); repeatable.",
)
@click.option(
    *("--report", "reports"),
    metavar="FILE",
    multiple=True,
    help="Page of `ciguard report --html`, one for each --history.",
)
@click.pass_obj
def command(
    invocation: Invocation, folder: str, locations: Sequence[str], reports: Sequence[str]
) -> int:
    """Write static pages of the history into a folder that is new, empty, or an older site."""
    out = invocation.folder / folder
    if local.is_directory(out) and any(out.iterdir()) and not (out / MARKER).exists():
        fix = "name a folder that is empty or does not exist"
        raise UsageError("the folder has files of no site", where=f"--out {folder}", fix=fix)
    static = template_folder() / pages.FOLDER / "static"
    files = {f"{STATIC}{file.name}": file.read_bytes() for file in static.iterdir()}
    badge = environment().get_template(f"{pages.FOLDER}badge.svg.j2")
    site: dict[str, pages.View] = {}
    lines: list[pages.RepositoryLine] = []
    stores = locations or [invocation.config().history.store]
    if len(reports) > len(stores):
        fix = "pass a --history for each --report"
        raise UsageError(f"{len(reports)} reports", where="--report", fix=fix)
    for location, report in zip_longest(stores, reports):
        history = load(open_store(location, invocation.folder, invocation.environ)).history
        base = base_history(history)
        named = base.runs[-1].repository if base.runs else None
        name = named or invocation.environ.get("GITHUB_REPOSITORY", "")
        if not base.runs or not _REPOSITORY.fullmatch(name):
            what = "no run of a base branch with the name of its repository"
            fix = "add one: ciguard history add; or set GITHUB_REPOSITORY=OWNER/NAME"
            raise InputError(what, where=location, fix=fix)
        if any(name == line.repository for line in lines):
            raise UsageError(f"two histories of {name}", where="--history", fix="name it once")
        rows = tuple(run_rows(base))
        site |= repository_pages(name, base, rows)
        state = base_state(rows)
        lines.append(pages.RepositoryLine(name, False, rows[0].branch, state))
        coverage = next((run.coverage for run in reversed(base.runs) if run.coverage), None)
        files[f"{name}/badge.svg"] = badge.render(run=state, coverage=coverage).encode()
        if report:
            page = local.read(invocation.folder / report)
            of = _REPORTED.search(page)
            if of is None or of[1] != name.encode():
                fix = "pass a page of `ciguard report --html`, made in GitHub Actions"
                raise InputError(f"no report of a run of {name}", where=report, fix=fix)
            # The history may not have the run yet: a service adds a run after its end.
            files[f"{name}/runs/{int(of[2])}/{int(of[3] or 1)}.html"] = page
    lines.sort(key=lambda line: line.base is None or not line.base.is_red)
    site["/"] = pages.RepositoriesPage("", 1, 1, len(lines), tuple(lines))
    files |= _render(site, files, invocation.environ.get("GITHUB_SERVER_URL", SERVER_URL))
    former = json.loads(local.read(out / MARKER))["files"] if (out / MARKER).exists() else ()
    gone = {*former} - {*files}  # as the pages of a repository that is no longer named
    for file in [path for path in out.rglob("*") if path.relative_to(out).as_posix() in gone]:
        file.unlink()
    files[MARKER] = json.dumps({"ciguard_site": 1, "files": [*files]}).encode()
    for path, content in files.items():
        local.write(out / path, content)
    total = size(sum(map(len, files.values())))
    console.out(f"{out / 'index.html'}: {count_of(len(files), 'file')}, {total}")
    return ExitCode.OK


def _render(
    site: Mapping[str, pages.View], files: Collection[str], github: str
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of pages, by path."""
    templates = pages.page_environment(owners=owner_text, static=f"/{STATIC}".__add__)
    # A date in the place of an age, which would grow.
    templates.filters["age"] = lambda at_ms, _: pages.moment(at_ms).partition(" ")[0]
    linked = {*files, *(file_of(address, form) for address in site for form in ("html", "json"))}
    for address, view in site.items():
        frame = {"visit": PageVisit(address), "viewer": NO_VIEWER, "github": github}
        page = pages.render(templates, view.TEMPLATE, view=view, now_ms=0, sign_in="", **frame)
        page = _LINK.sub(partial(_relative, linked, address, github), page)
        yield file_of(address, "html"), page.encode("utf-8", "backslashreplace")
        yield file_of(address, "json"), pages.as_json(view).encode()


def file_of(address: str, form: str) -> str:
    """Return the file of a page; of a query its hash, which has only characters of a path."""
    path, _, query = address.partition("?")
    digest = f"-{sha256(query.encode()).hexdigest()[:16]}" if query else ""
    return f"{path[1:] or 'index'}{digest}.{form}"


def _relative(files: Collection[str], page: str, github: str, link: re.Match[str]) -> str:
    """Return an attribute of a page with a relative address; "" if the site has no such file."""
    name, address, fragment = link[1], html.unescape(link[2]), link[3] or ""
    for path in (address[1:], file_of(address, "html")):
        if path in files:
            relative = posixpath.relpath(path, posixpath.dirname(page.partition("?")[0][1:]))
            return f' {name}="{relative}{fragment}"'
    run = _RUN.fullmatch(address)
    return f' {name}="{github}{run[1]}actions/runs/{run[2]}"' if run else ""
