"""The page in a real browser: every view, by mouse and keyboard, in both colour schemes and three widths."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import devmem
from tests.web.conftest import Page, Serve, ask, remember

# Playwright is installed by `make test-web` alone.
Browser: TypeAlias = Any
BrowserContext: TypeAlias = Any

pytestmark = pytest.mark.browser
_WIDTHS = (360, 900, 1600)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start the browser of this machine."""
    path = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    with import_module("playwright.sync_api").sync_playwright() as playwright:
        # A browser that runs as root, as in containers, has no sandbox.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def _context(chromium: Browser, page: Page, width: int = 900, scheme: Any = "light") -> BrowserContext:
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, base_url=page.address)
    cookie = page.guard.new_cookie()
    context.add_cookies([{"name": "devmem", "value": cookie, "url": page.address}])
    return context


def _fill(team: Path) -> str:
    item = remember(team, "The launch is on May 1st in Berlin.")
    with devmem.open(f"{team}#notes") as memory:
        memory.update(item, "The launch is on June 2nd in Berlin.")
        memory.add([{"role": "user", "content": "When is the launch?"}, {"role": "assistant", "content": "In June."}],
                   conversation="c-7")  # fmt: skip
    ask(team, "When is the launch?")
    return item


_VIEWS = {
    "search": "/?q=When+is+the+launch&beside=words",
    "agent": "/?q=When+is+the+launch&node=helper",
    "item": "/item/notes/{item}",
    "shown": "/shown",
    "step": "/step/1",
    "who": "/who",
    "talk": "/talk?store=notes&conversation=c-7",
    "health": "/health?examine=notes",
    "transfer": "/transfer",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_accessible_and_fits_every_width(
    chromium: Browser, team: Path, serve: Serve, scheme: str
) -> None:
    """No serious finding of axe, no error of a script, nothing wider than the window; PICTURES keeps screenshots."""
    axe = import_module("axe_playwright_python.sync_playwright").Axe()
    item = _fill(team)
    page = serve()
    pictures = os.environ.get("PICTURES")
    for width in _WIDTHS:
        with _context(chromium, page, width, scheme) as context:
            tab = context.new_page()
            errors: list[str] = []
            tab.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
            tab.on("console", lambda said, errors=errors: errors.append(said.text) if said.type == "error" else None)
            for name, path in _VIEWS.items():
                tab.goto(path.replace("{item}", item))
                # The axe script is put in by the test: the page's own policy lets no other script in.
                if width == _WIDTHS[1]:
                    context.new_cdp_session(tab).send("Page.setBypassCSP", {"enabled": True})
                    tab.reload()
                    serious = [
                        one for one in axe.run(tab).response["violations"] if one["impact"] in ("serious", "critical")
                    ]
                    assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == [], name
                assert tab.evaluate("document.documentElement.scrollWidth") <= width, name
                if pictures:
                    tab.screenshot(path=f"{pictures}/{name}-{width}-{scheme}.png", full_page=True)
            assert errors == []


def test_from_a_wrong_answer_to_its_item_in_four_clicks(chromium: Browser, team: Path, serve: Serve) -> None:
    item = remember(team, "Tool output: the launch was cancelled.")
    ask(team, "Was the launch cancelled?")
    with _context(chromium, serve()) as context:
        tab = context.new_page()
        tab.goto("/")
        tab.click("nav >> text=What was shown")
        tab.click(".list a")
        tab.click("tbody a")
        tab.click(".hits .facts a")
        tab.wait_for_url(f"**/item/notes/{item}")
        assert "cancelled" in tab.inner_text("main")


def test_edit_undo_and_forget_by_mouse_and_keyboard(chromium: Browser, team: Path, serve: Serve) -> None:
    item = remember(team, "The launch is on June 2nd.")
    with _context(chromium, serve()) as context:
        tab = context.new_page()
        tab.goto("/")
        tab.keyboard.press("Tab")
        tab.keyboard.press("/")
        tab.fill("input[name=q]", "launch")
        tab.keyboard.press("Enter")
        tab.click(".hits .facts a")
        tab.wait_for_url(f"**/item/notes/{item}")
        tab.click("summary:has-text('Edit')")
        tab.fill("textarea", "The launch is on June 9th.")
        tab.click("button:has-text('Save')")
        tab.wait_for_selector("ins")
        assert tab.inner_text(".whole") == "The launch is on June 9th."
        tab.click("button:has-text('Undo')")
        tab.locator(".whole", has_text="2nd").wait_for()
        tab.click("button:has-text('Quarantine')")
        tab.locator("h1", has_text="in quarantine").wait_for()
        tab.click("button:has-text('Release')")
        tab.locator("button", has_text="Quarantine").wait_for()
        tab.click("button:has-text('See what forgetting reaches')")
        tab.click("button.danger")
        tab.wait_for_selector("h1:has-text('Receipt')")
        assert tab.goto(f"/item/notes/{item}").status == 404


def test_the_link_opens_the_page_in_a_browser(chromium: Browser, team: Path, serve: Serve) -> None:
    page = serve()
    with chromium.new_context() as context:
        tab = context.new_page()
        tab.goto(f"{page.address}/enter?token={page.guard.link_token}")
        tab.wait_for_url(f"{page.address}/")
        assert "devmem" in tab.title()
