from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ciguard.errors import UsageError
from ciguard.serve.settings import Role, Settings, read_settings

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIsecret\n-----END RSA PRIVATE KEY-----"
APP = {"CIGUARD_APP_ID": "4711", "CIGUARD_APP_KEY": PEM}
HOOK = {"CIGUARD_WEBHOOK_SECRET": "sesame-of-hooks"}


def read(environ: dict[str, str], **options: Any) -> Settings:
    return read_settings(
        environ, Settings(database="sqlite:///ciguard.db", results="./results", **options)
    )


def test_app_with_its_secrets() -> None:
    oauth = {"CIGUARD_OAUTH_ID": "Iv1.1", "CIGUARD_OAUTH_SECRET": "sesame-of-people"}
    settings = read({**APP, **HOOK, **oauth}, public_url="https://ci.example.org/")
    assert settings.app is not None
    assert settings.app.secret.get_secret_value() == PEM
    assert settings.oauth is not None
    assert settings.oauth.secret.get_secret_value() == "sesame-of-people"
    assert (settings.api_url, settings.server_url) == (
        "https://api.github.com",
        "https://github.com",
    )
    assert settings.public_url == "https://ci.example.org"


def test_no_secret_is_in_the_repr() -> None:
    environ = {**APP, **HOOK, "CIGUARD_OAUTH_ID": "i", "CIGUARD_OAUTH_SECRET": "sesame-of-people"}
    settings = read_settings(
        environ, Settings(database="postgresql://ciguard:sesame@db/ci", results="r")
    )
    assert "sesame" not in repr(settings)
    assert "MIIsecret" not in repr(settings)


def test_key_is_read_out_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "app.pem").write_text(PEM)
    settings = read({**HOOK, **APP, "CIGUARD_APP_KEY": str(tmp_path / "app.pem")})
    assert settings.app is not None
    assert settings.app.secret.get_secret_value() == PEM


def test_enterprise_server_has_its_api_beside_it() -> None:
    settings = read({**APP, **HOOK, "GITHUB_SERVER_URL": "https://ghe.example.org/"})
    assert settings.api_url == "https://ghe.example.org/api/v3"
    environ = {"GITHUB_API_URL": "https://api.ghe.example.org"}
    assert read({**APP, **HOOK, **environ}).api_url == "https://api.ghe.example.org"


def test_token_is_for_the_repositories_that_are_named() -> None:
    environ = {**HOOK, "CIGUARD_TOKEN": "ghp_1"}
    assert read(environ, repositories=("o/a", "o/b")).repositories == ("o/a", "o/b")


def test_worker_needs_no_webhook_secret_and_web_no_identity() -> None:
    assert read(APP, role=Role.WORKER).webhook_secret is None
    settings = read(HOOK, role=Role.WEB)
    assert (settings.app, settings.token) == (None, None)


@pytest.mark.parametrize(
    ("environ", "options", "words"),
    [
        ({**HOOK}, {}, "CIGUARD_APP_ID: is not set"),
        ({**APP, "CIGUARD_WEBHOOK_SECRET": ""}, {}, "CIGUARD_WEBHOOK_SECRET: is not set"),
        ({**HOOK, "CIGUARD_APP_ID": "1"}, {}, "CIGUARD_APP_KEY: is not set, but CIGUARD_APP_ID is"),
        (
            {**HOOK, **APP, "CIGUARD_TOKEN": "ghp_1"},
            {},
            "CIGUARD_TOKEN: is set, and CIGUARD_APP_ID",
        ),
        ({**HOOK, **APP}, {"repositories": ("o/a",)}, "--repo: an App works for all"),
        ({**HOOK, "CIGUARD_TOKEN": "ghp_1"}, {}, "CIGUARD_TOKEN: is set, but no repository"),
        (
            {**HOOK, "CIGUARD_TOKEN": "x"},
            {"repositories": ("a/../b",)},
            "--repo: expected OWNER/NAME",
        ),
        ({**HOOK, **APP}, {"public_url": "ci.example.org"}, "--url: expected an http"),
        ({**HOOK, **APP, "GITHUB_API_URL": "github"}, {}, "GITHUB_API_URL: expected an http"),
        ({**HOOK, **APP, "CIGUARD_OAUTH_ID": "1"}, {}, "CIGUARD_OAUTH_SECRET: is not set"),
        ({**HOOK, **APP, "CIGUARD_APP_KEY": "/no/such.pem"}, {}, "CIGUARD_APP_KEY: is neither"),
        ({**HOOK, **APP, "CIGUARD_APP_KEY": "MIIsecret"}, {}, "CIGUARD_APP_KEY: is neither"),
    ],
)
def test_mistake_is_named(environ: dict[str, str], options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(environ, **options)
    assert words in str(caught.value)
    assert "MIIsecret" not in str(caught.value)


def test_all_mistakes_come_together() -> None:
    with pytest.raises(UsageError, match="3 problems"):
        read({"CIGUARD_OAUTH_ID": "1"}, role=Role.ALL)


def test_mistakes_about_the_proxy_are_named() -> None:
    with pytest.raises(UsageError) as caught:
        read({**APP, **HOOK}, proxy_header="X Forwarded", proxies=["10.0.0.1", "proxy.example"])
    assert "--trust-proxy-header" in str(caught.value)
    assert '"proxy.example"' in str(caught.value)
    assert read({**APP, **HOOK}, proxy_header="X-User").proxy_header == "X-User"
    with pytest.raises(UsageError, match="--metrics-from"):
        read({**APP, **HOOK}, metrics_from=["10.0.0.1/24"])
