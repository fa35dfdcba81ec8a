"""`ciguard audit` and `ciguard audit OWNER/NAME`: apply the rules to workflows and past runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from ciguard import console
from ciguard.audit.checkout_reader import find_token, read_checkout
from ciguard.audit.next_step import after_workflows
from ciguard.audit.repository_runs import FOLDER, Unread
from ciguard.audit.repository_view import as_json, document, headline, screen
from ciguard.audit.rule_table import RULES, RUN_RULES, audit_repository
from ciguard.errors import ExitCode, RemoteError, UsageError
from ciguard.github.repository_ref import REPOSITORY, required_token, resolve_repository
from ciguard.render.formats import as_format
from ciguard.workflow.actions_address import address_and_set_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.audit.repository_runs import RepositoryRuns
    from ciguard.config.invocation import Invocation


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
        facts = _read_repository(environ, repository, workflow, runs)
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


def _read_repository(
    environ: Mapping[str, str], repository: str, workflow: str, runs: int
) -> RepositoryRuns:
    # Imported here, as below: pydantic and httpx cost 0.5 s that an audit of files need not pay.
    from ciguard.audit.repository_reader import read_runs  # noqa: PLC0415

    if not REPOSITORY.fullmatch(repository):
        fix = "ciguard audit OWNER/NAME, as in the address of its page"
        raise UsageError(f'expected OWNER/NAME, found "{repository:.80}"', fix=fix)
    reference = resolve_repository(environ, repository=repository)
    token = required_token(environ, reference.repository)
    return read_runs(environ, reference, token, workflow=workflow, runs=runs)


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
        reference = resolve_repository({**environ, **unnamed}, remote=remote)
    except UsageError as error:
        raise UsageError("the remote origin is no repository on GitHub") from error
    token = find_token(reference, environ)
    if not token:
        raise UsageError("no token for GitHub", fix="set GITHUB_TOKEN, or log in: gh auth login")
    from ciguard.audit.repository_reader import read_runs  # noqa: PLC0415

    files = facts.workflows
    read = read_runs(environ, reference, token, workflow=workflow, runs=runs, files=files)
    return replace(read, unread=(*facts.unread, *read.unread))
