"""`ciguard audit OWNER/NAME`: audits a repository on GitHub."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import SecretStr

from ciguard import console
from ciguard.audit.repository_reader import FOLDER, MAX_CALLS, RepositoryReader
from ciguard.audit.repository_view import as_json, document, headline
from ciguard.audit.rule_table import RULES, audit_repository
from ciguard.config.suites import HOSTED
from ciguard.errors import ExitCode, UsageError
from ciguard.github.client import GitHub
from ciguard.github.repository_ref import (
    REPOSITORY,
    RepositoryRef,
    required_token,
    resolve_repository,
)
from ciguard.github.response_cache import CacheFolder, CallBudget, ResponseCache
from ciguard.render.formats import as_format
from ciguard.sources.inputs import RETRY_POLICY, TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.config.invocation import Invocation


def audit_remote(
    invocation: Invocation,
    *,
    repository: str,
    workflow: str,
    runs: int,
    format_: str,
    fail_on: Sequence[str],
) -> int:
    """Audit a repository, and print the findings.

    Raises:
        UsageError: a rule is not known, the repository is malformed, or there is no token.
        GitHubError, InputError, NothingToDo: the repository, or its workflow, cannot be read.
    """
    unknown = [name for name in fail_on if name not in RULES]
    if unknown:
        fix = f"name: {', '.join(RULES)}"
        raise UsageError(f"--fail-on: no rule {unknown[0]!r}", fix=fix)
    environ = invocation.environ
    if not REPOSITORY.fullmatch(repository):
        fix = "ciguard audit OWNER/NAME, as in the address of its page"
        raise UsageError(f'expected OWNER/NAME, found "{repository:.80}"', fix=fix)
    reference = resolve_repository(environ, repository=repository)
    token = required_token(environ, reference.repository)
    cache, calls = CacheFolder(cache_folder(environ, reference)), CallBudget(MAX_CALLS)
    prices = {label: pool.usd_per_minute or 0.0 for label, pool in HOSTED.items()}
    with GitHub(
        reference.api_url,
        SecretStr(token),
        retry_policy=RETRY_POLICY,
        timeout_s=TIMEOUT_S,
        cache=ResponseCache(cache),
        calls=calls,
    ) as github:
        facts = RepositoryReader(
            *(github, reference, workflow, runs, prices), cache, calls, console.progress
        ).read()
    path = f"{FOLDER}/{PurePosixPath(workflow).name}" if workflow else ""
    audit = audit_repository(facts, path)
    console.err(f"GitHub: {facts.calls:,} of {calls.limit:,} calls")
    is_json = format_ == "json"
    answer = (
        json.dumps(as_json(audit), indent=1) if is_json else as_format(document(audit), format_)
    )
    console.out(answer)
    failed = [rule for rule in RULES if rule in fail_on and audit.findings[rule]]
    if failed:
        console.err(f"ciguard audit: found {', '.join(failed)}: {headline(audit)}")
    return ExitCode.AUDIT_FINDING if failed else ExitCode.OK


def cache_folder(environ: Mapping[str, str], reference: RepositoryRef) -> Path | None:
    """Return the cache folder of a repository; None if the environment names none."""
    home = environ.get("HOME")
    base = environ.get("XDG_CACHE_HOME") or environ.get("LOCALAPPDATA")
    base = base or (f"{home}/.cache" if home else "")
    host = (urlsplit(reference.server_url).hostname or "").replace(":", "_")
    return Path(base, "ciguard", "audit", host, *reference.repository.split("/")) if base else None
