"""`ciguard audit` and `ciguard audit OWNER/NAME`: apply the rules to workflows and past runs.

For a checkout, the token is that of the environment or of `gh` for the server of its remote.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ciguard import console
from ciguard.audit.declared_jobs import test_workflows
from ciguard.audit.next_step import after_workflows
from ciguard.audit.repository_runs import FOLDER, RepositoryRuns, Unread, read_workflow
from ciguard.audit.repository_view import as_json, document, headline, screen
from ciguard.audit.rule_table import RULES, RUN_RULES, audit_repository
from ciguard.config.invocation import Invocation
from ciguard.errors import ExitCode, InputError, NothingToDo, RemoteError, UsageError
from ciguard.git.checkout import Checkout
from ciguard.git.commands import program
from ciguard.github import repository_ref
from ciguard.render.formats import as_format
from ciguard.sources import local
from ciguard.workflow.actions_address import address_and_set_up
from ciguard.workflow.test_commands import read_tasks


def audit_workflows(
    invocation: Invocation,
    *,
    repository: str | None,
    workflow: str,
    runs: int,
    format_: str,
    fail_on: Sequence[str],
) -> int:
    """Audit a repository, or the checkout for None, and print the findings.

    Args:
        workflow: name of the only workflow file to read; "" for all.
        runs: read at most.
        fail_on: rules whose findings are an error.

    Raises:
        UsageError: a rule is not known, the repository is malformed, or there is no token.
        CiguardError: the repository, or its workflow, cannot be read.
    """
    unknown = [name for name in fail_on if name not in RULES]
    if unknown:
        fix = f"name: {', '.join(RULES)}"
        raise UsageError(f"--fail-on: no rule {unknown[0]!r}", fix=fix)
    environ, following = invocation.environ, None
    if repository is not None:
        # Imported here, as below: pydantic and httpx cost 0.5 s, which an audit of files saves.
        from ciguard.audit.repository_reader import read_runs  # noqa: PLC0415

        if not repository_ref.REPOSITORY.fullmatch(repository):
            fix = "ciguard audit OWNER/NAME, as in the address of its page"
            raise UsageError(f'expected OWNER/NAME, found "{repository:.80}"', fix=fix)
        reference = repository_ref.resolve_repository(environ, repository=repository)
        token = repository_ref.required_token(environ, reference.repository)
        facts = read_runs(environ, reference, token, workflow=workflow, runs=runs)
    else:
        facts, remote, prefix = read_checkout(invocation.folder, environ, workflow)
        up = "../" * prefix.count("/")  # the paths are those of the repository
        root = invocation.folder / up
        following = after_workflows(facts.workflows, *address_and_set_up(root, environ))
        if prefix and following.command:
            following = following._replace(command=f"cd {up} && {following.command}")
        try:
            facts = _with_runs(facts, remote, environ, workflow=workflow, runs=runs)
        except (UsageError, RemoteError) as error:
            if not RUN_RULES.keys().isdisjoint(fail_on):
                raise
            detail = f"{error.what}{': ' * bool(error.fix)}{error.fix}"
            unread = Unread("runs", "refused", 0, runs, detail)
            facts = replace(facts, unread=(*facts.unread, unread))
    audit = audit_repository(facts, f"{FOLDER}/{workflow}" if workflow else "")
    if format_ == "json":
        extra = {"next_step": following._asdict()} if following else {}
        answer = json.dumps(as_json(audit) | extra, indent=1)
    else:
        blocks = screen if format_ == "text" else document
        answer = as_format(blocks(audit, following), format_)
    console.out(answer)
    failed = [rule for rule in RULES if rule in fail_on and audit.findings[rule]]
    if failed:
        console.err(f"ciguard audit: found {', '.join(failed)}: {headline(audit)}")
    return ExitCode.AUDIT_FINDING if failed else ExitCode.OK


def _with_runs(
    facts: RepositoryRuns, remote: str, environ: Mapping[str, str], *, workflow: str, runs: int
) -> RepositoryRuns:
    """Return the facts of a checkout with the past runs of its remote.

    Raises:
        UsageError: its repository is not known, or there is no token. RemoteError: of GitHub.
    """
    # A job of another repository may have checked this one out; find_token judges the server.
    unnamed = dict.fromkeys(("GITHUB_REPOSITORY", "GITHUB_TOKEN", "GH_TOKEN"), "")
    try:
        reference = repository_ref.resolve_repository({**environ, **unnamed}, remote=remote)
    except UsageError as error:
        raise UsageError("the remote origin is no repository on GitHub") from error
    token = find_token(reference, environ)
    if not token:
        raise UsageError("no token for GitHub", fix="set GITHUB_TOKEN, or log in: gh auth login")
    from ciguard.audit.repository_reader import read_runs  # noqa: PLC0415

    files = facts.workflows
    read = read_runs(environ, reference, token, workflow=workflow, runs=runs, files=files)
    return replace(read, unread=(*facts.unread, *read.unread))


# Variables that git and gh do not receive: gh would give some of them for any server.
TOKENS: Final = ("GITHUB_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_ENTERPRISE_TOKEN")
GH_LIMIT_S: Final = 10.0


def read_checkout(
    folder: Path, environ: Mapping[str, str], workflow: str
) -> tuple[RepositoryRuns, str, str]:
    """Read the checkout that contains a folder.

    Args:
        workflow: name of a file that must exist, or "".

    Returns:
        Its workflow files, the address of `origin`, and the path of the folder in it.

    Raises:
        InputError, NothingToDo: no checkout, no workflow in it, or not the named one.
    """
    checkout = Checkout(folder, _without_tokens(environ))
    try:
        root, prefix, remote = Path(checkout.root()), checkout.prefix(), checkout.remote()
    except RemoteError as error:
        fix = "call it in a checkout, or name a repository on GitHub: ciguard audit OWNER/NAME"
        raise InputError(f"no checkout: {error.what}", where=str(folder), fix=fix) from error
    listed = sorted((root / FOLDER).glob("*.y*ml"))
    paths = {path.name: path for path in listed if path.is_file()}  # a link may be to a device
    if not paths:
        fix = "call it in a repository that uses GitHub Actions"
        raise NothingToDo("no workflow file", where=str(root / FOLDER), fix=fix)
    if workflow and workflow not in paths:
        fix = f"name one of: {', '.join(list(paths)[:20])}"
        raise InputError(f"no workflow {workflow!r}", where=str(root / FOLDER), fix=fix)
    tasks = read_tasks(lambda name: _text(root / name))
    read = [
        read_workflow(f"{FOLDER}/{name}", local.read(path), tasks) for name, path in paths.items()
    ]
    unread = tuple(file for file in read if isinstance(file, Unread))
    files = tuple(file for file in read if not isinstance(file, Unread))
    name = (repository_ref.parse_remote(remote) or ("", root.name))[1]
    facts = RepositoryRuns(name, "", "", files, test_workflows(files), unread=unread)
    return facts, remote, prefix


def _text(path: Path) -> str:
    return local.read(path).decode("utf-8", "replace") if path.is_file() else ""


def _without_tokens(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in TOKENS}


def find_token(reference: repository_ref.RepositoryRef, environ: Mapping[str, str]) -> str:
    """Return a token for a repository's server, from the environment or from `gh`, or "".

    A checkout decides its remote. So the token of the environment goes only to the server that the
    environment names, or to GitHub's own, and none goes over a connection that is not encrypted.
    """
    server = reference.server_url
    is_named = bool(environ.get("GITHUB_SERVER_URL"))
    if not is_named and not server.startswith("https://"):
        return ""
    is_trusted = is_named or not repository_ref.is_enterprise_server(server)
    token = repository_ref.token_of(environ) if is_trusted else ""
    if token:
        return token
    words = ("auth", "token", "--hostname", urlsplit(server).hostname or "")
    try:
        answer = subprocess.check_output(
            [program("gh", environ), *words],
            env=_without_tokens(environ),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=GH_LIMIT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.decode("utf-8", "replace").strip()
