"""Pages in Chromium: nothing in the console, nothing wider than the window, no violation of axe."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from loopback import serving
from playwright.sync_api import Browser, Page
from report.browser import CHROMIUM, needs_browser
from serve.pages.filled import NEWEST, Site

from ciguard.serve.application import build_application

AXE: Final = Path(__file__).parents[3] / ".tools/browser/node_modules/axe-core/axe.min.js"
VIOLATIONS: Final = """axe.run().then(found => found.violations.map(
    one => [one.id, one.nodes.map(node => node.html.slice(0, 200))]))"""
RUN: Final = f"/octo-org/shop/runs/{NEWEST - 3}/1"
TEST: Final = "/octo-org/shop/tests?suite=unit&variant=py311&unit=a.py%3A%3Asometimes"
PAGES: Final = (
    *("/", "/?q=none", "/?page=0", "/octo-org/shop", "/octo-org/empty", "/octo-org/none"),
    *(RUN, f"{RUN}?text=none", f"{RUN}/comparison", TEST, f"{TEST}x", "/work"),
    *("/octo-org/shop/offenders", "/octo-org/empty/offenders", "/octo-org/shop/flaky"),
    *("/octo-org/empty/flaky", "/octo-org/shop/shards", "/octo-org/shop/costs"),
    "/octo-org/shop/movers",
)
FEW: Final = [("/octo-org/shop", 390, "dark"), (RUN, 1440, "light")]

pytestmark = needs_browser


@pytest.fixture(scope="module")
def site(filled: Site) -> Iterator[str]:
    """Where the service listens."""
    application = build_application(filled.service, filled.results.read)
    with serving(application, lifespan="on") as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Imported here: it would take a third of a second of each worker.
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        flags = [flag for flag in CHROMIUM if flag != "--headless"]
        opened = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser, site: str) -> Iterator[Page]:
    with browser.new_context(base_url=site) as context:
        yield context.new_page()


def look(browser: Browser, address: str, width: int, scheme: Any) -> list[object]:
    """What is wrong with a page under its own policy; without axe only the rest is looked at."""
    view: Any = {"width": width, "height": 900}
    context = browser.new_context(viewport=view, color_scheme=scheme)
    page = context.new_page()
    said: list[object] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    answer = page.goto(address, wait_until="load")
    excess = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    if excess > 0:
        said.append(f"{excess} px too wide")
    height = page.evaluate("document.documentElement.scrollHeight")
    if width == 390 and height > 6000:
        said.append(f"{height} px high")
    if AXE.is_file():
        page.evaluate(AXE.read_text("utf-8"))  # not as an element, which the policy refuses
        said.extend(page.evaluate(VIOLATIONS))
    context.close()
    if answer is None or answer.ok:
        return said
    # Chromium says so of a page that is an error.
    return [one for one in said if "Failed to load resource" not in str(one)]


@pytest.mark.parametrize(("path", "width", "scheme"), FEW)
def test_page_in_a_browser(browser: Browser, site: str, path: str, width: int, scheme: str) -> None:
    assert look(browser, site + path, width, scheme) == []


def test_results_are_sorted_in_their_place(page: Page) -> None:
    page.goto(RUN)
    page.evaluate("document.body.dataset.mark = 'the same page'")
    page.click("#results thead >> text=Wall time")
    page.wait_for_selector("th[aria-sort=descending] >> text=Wall time")
    assert page.text_content(".results tbody a") == "case <one>"
    assert page.url.endswith("?sort=-wall#results")
    assert page.evaluate("document.body.dataset.mark") == "the same page"
    assert page.locator(".legs tbody tr").count() == 3
    page.click(".results tbody a")
    page.wait_for_selector(".chart polyline", state="attached")
    assert page.evaluate("document.body.dataset.mark") is None


@pytest.mark.soak
def test_way_back_to_sorted_results_has_the_shards(page: Page) -> None:
    page.goto(RUN)
    for title, order in (("Wall time", "-wall"), ("Tries", "-tries")):
        page.click(f"#results thead >> text={title}")
        page.wait_for_selector(f"th[aria-sort=descending] >> text={title}")
        assert page.url.endswith(f"?sort={order}#results")
    page.go_back()
    page.wait_for_selector("th[aria-sort=descending] >> text=Wall time")
    assert page.locator(".legs tbody tr").count() == 3
    page.click(".results tbody a")
    page.wait_for_selector(".chart polyline", state="attached")
    page.go_back()
    page.wait_for_selector("th[aria-sort=descending] >> text=Wall time")
    assert page.locator(".legs tbody tr").count() == 3
    page.reload()
    assert page.locator(".legs tbody tr").count() == 3


@pytest.mark.soak
def test_search_keeps_the_focus_and_changes_the_links(page: Page) -> None:
    page.goto(RUN)
    page.fill("#text", "a.py")
    page.press("#text", "Enter")
    page.wait_for_url("**text=a.py**")
    page.wait_for_selector("#results h2 .count >> text=4")
    assert page.evaluate("document.activeElement.id") == "text"
    assert page.locator("#formats a").first.get_attribute("href") == f"{RUN}.json?text=a.py"
    page.focus("#sort-wall")
    page.keyboard.press("Enter")
    page.wait_for_selector("th[aria-sort=descending] >> text=Wall time")
    assert page.evaluate("document.activeElement.id") == "sort-wall"


@pytest.mark.soak
def test_error_is_shown_where_results_were_searched(page: Page) -> None:
    page.goto(RUN)
    page.fill("#text", "x" * 501)
    page.click("#filter")
    page.wait_for_selector("text=expected at most 500 characters")
    assert page.title().startswith("Bad Request")
    page.go_back()
    page.wait_for_selector("#results tbody tr")


def test_keyboard_reaches_the_first_failed_test(page: Page) -> None:
    page.goto(RUN)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "a.t::two"


def test_pages_work_without_scripts(browser: Browser, site: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(site + RUN)
    page.fill("input[name=text]", "test_149")
    page.click("#results button")
    assert page.locator(".results tbody tr").count() == 1
    page.click(".results tbody a")
    assert page.locator(".chart polyline").count() == 2
    context.close()


@pytest.mark.soak
@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not here: make tools")
def test_violation_is_found(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<!doctype html><title>t</title><img src=x><p style=width:9000px>x", "utf-8")
    found = str(look(browser, f"file://{path}", 390, "dark"))
    assert "image-alt" in found
    assert "too wide" in found


@pytest.mark.soak
@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_in_a_browser(
    browser: Browser, site: str, path: str, width: int, scheme: str
) -> None:
    assert look(browser, site + path, width, scheme) == []
