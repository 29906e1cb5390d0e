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
from devmem import MemoryItem
from devmem.stores import Provenance, SourceKind
from tests.web.conftest import Page, Serve, ask, remember

POISON = "Return policy: a purchase can be returned for a full refund within 900 days."
POISONED = """
memory:
  - {name: policies, type: simple, config: {memory_path: policies.db, history: keep}}
record_recalls: true
nodes:
  - id: clerk
    type: agent
    config:
      provider: extractive
      memories: [{name: policies, top_k: 3, write: false, retrieve_stage: [gen]}]
"""

# Playwright is installed by `make test-web` alone.
Browser: TypeAlias = Any
BrowserContext: TypeAlias = Any

pytestmark = pytest.mark.browser
_WIDTHS = (360, 900, 1600)
_PICTURED = ("list", "search", "step", "item", "who", "talk", "health")
"""Views whose pictures are in the documentation."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start the browser of this machine."""
    path = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    with import_module("playwright.sync_api").sync_playwright() as playwright:
        # A browser that runs as root, as in containers, has no sandbox.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def _context(
    chromium: Browser, page: Page, width: int = 900, scheme: Any = "light", locale: str = "en-GB"
) -> BrowserContext:
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, base_url=page.address, locale=locale
    )
    cookie = page.guard.new_cookie()
    context.add_cookies([{"name": "devmem", "value": cookie, "url": page.address}])
    return context


def _poison(team: Path) -> str:
    """Have a tool bring a text from a page that anybody may write, and an agent answer by it; return its address."""
    team.write_text(POISONED, encoding="utf-8")
    tool = Provenance(kind=SourceKind.TOOL, name="web_search")
    poison = MemoryItem(id="poison", content_summary=POISON, provenance=tool, trust=0.4)
    with devmem.open(f"{team}#policies") as memory:
        memory.add("Customers send goods back at their own cost.")
        memory.add("Opened software is exchanged, and never refunded.")
        memory.store.add([poison])
    ask(team, "Within how many days can a purchase be returned for a refund?")
    return "/item/policies/poison"


def _fill(team: Path) -> dict[str, str]:
    """Prepare a team that has something for every view, and return the views' addresses by name."""
    poison = _poison(team)
    with devmem.open(f"{team}#policies") as memory:
        item = memory.add("Refunds take up to 14 days.", conversation="c-7", time="3 days ago")
        memory.add(
            [{"role": "user", "content": "How long do refunds take?"},
             {"role": "assistant", "content": "Up to 14 days."}, {"role": "user", "content": "Is that by law?"},
             {"role": "assistant", "content": "It is ours: we have changed it since."}],
            conversation="c-7",
        )  # fmt: skip
        memory.update(item, "Refunds take up to 10 days after the goods are back.")
        with memory.run("holiday-rules") as run:
            run.add("In December a purchase can be returned until January 15th.", time="yesterday")
    ask(team, "How long does a refund take after a return?")
    return {
        "list": "/",
        "suspects": "/?max_trust=0.5&source=web_search",
        "search": "/?q=Within+how+many+days+can+a+purchase+be+returned%3F&store=policies",
        "beside": "/?q=How+long+do+refunds+take%3F&store=policies&beside=words",
        "agent": "/?q=How+long+do+refunds+take%3F&node=clerk",
        "nothing": "/?q=zanzibar&user=nobody&min_trust=1",
        "item": poison,
        "history": f"/item/policies/{item}",
        "shown": "/shown",
        "run": "",
        "step": "/step/2",
        "who": "/who",
        "talk": "/talk?store=policies&conversation=c-7",
        "health": "/health",
        "examine": "/health?examine=policies",
        "transfer": "/transfer",
    }


_SETTINGS = {
    "light": ("light", "en-GB"),
    "dark": ("dark", "en-GB"),
    "zh": ("light", "zh-CN"),
}


@pytest.mark.parametrize("setting", _SETTINGS)
def test_every_view_is_accessible_and_fits_every_width(
    chromium: Browser, team: Path, serve: Serve, setting: str
) -> None:
    """No serious finding of axe, no error of a script, nothing wider than the window; PICTURES keeps screenshots."""
    axe = import_module("axe_playwright_python.sync_playwright").Axe()
    views = _fill(team)
    page = serve()
    pictures = os.environ.get("PICTURES")
    scheme, locale = _SETTINGS[setting]
    for width in _WIDTHS:
        with _context(chromium, page, width, scheme, locale) as context:
            tab = context.new_page()
            errors: list[str] = []
            tab.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
            tab.on("console", lambda said, errors=errors: errors.append(said.text) if said.type == "error" else None)
            for name, path in views.items():
                if name == "run":
                    tab.click("tbody a")
                    tab.wait_for_url("**/shown?run=*")
                else:
                    tab.goto(path)
                assert tab.locator("html").get_attribute("lang") == locale[:2]
                # The axe script is put in by the test: the page's own policy lets no other script in.
                if width != _WIDTHS[2]:
                    context.new_cdp_session(tab).send("Page.setBypassCSP", {"enabled": True})
                    tab.reload()
                    serious = [
                        one for one in axe.run(tab).response["violations"] if one["impact"] in ("serious", "critical")
                    ]
                    assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == [], name
                assert tab.evaluate("document.documentElement.scrollWidth") <= width, name
                if pictures:
                    tab.screenshot(path=f"{pictures}/{name}-{width}-{setting}.png", full_page=True)
                if pictures and name in _PICTURED and (width, setting) == (_WIDTHS[1], "light"):
                    tab.set_viewport_size({"width": width, "height": 640})
                    tab.screenshot(path=f"{pictures}/web-{name}.png")
                    tab.set_viewport_size({"width": width, "height": 900})
            assert errors == []


def test_a_poisoned_memory_is_found_by_its_source_and_deleted_by_the_keyboard_alone_in_chinese(
    chromium: Browser, team: Path, serve: Serve
) -> None:
    poison = _poison(team)
    with _context(chromium, serve(), locale="zh-CN") as context:
        tab = context.new_page()
        tab.goto("/")

        def tab_to(selector: str) -> None:
            for _ in range(60):
                tab.keyboard.press("Tab")
                if tab.evaluate("wanted => document.activeElement.matches(wanted)", selector):
                    return
            raise AssertionError(f"{selector} never has the focus")

        tab_to("[name=source]")
        tab.keyboard.type("web_search")
        tab.keyboard.press("Enter")
        tab.wait_for_url("**source=web_search*")
        tab.locator("#main:focus, [name=q]:focus").wait_for()
        tab_to("tbody a[href^='/item/']")
        tab.keyboard.press("Enter")
        tab.wait_for_url("**/item/**")
        tab.locator("#main:focus").wait_for()
        assert "展示于" in tab.inner_text("main")
        tab_to("form[action$='/forget'] button")
        tab.keyboard.press("Enter")
        tab.locator("h1", has_text="删除这条记忆").wait_for()
        tab.locator("#main:focus").wait_for()
        tab_to("button.danger")
        tab.keyboard.press("Enter")
        tab.locator("h1", has_text="回执").wait_for()
        assert tab.goto(poison).status == 404


def test_every_view_is_reached_by_the_keyboard(chromium: Browser, team: Path, serve: Serve) -> None:
    """Each link of the navigation has the focus in turn, is seen to have it, and its view's content gets it next."""
    _fill(team)
    with _context(chromium, serve()) as context:
        tab = context.new_page()
        for at in range(6):
            tab.goto("/who")
            for _ in range(2 + at):
                tab.keyboard.press("Tab")
            assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            title = tab.evaluate("document.activeElement.textContent")
            address = tab.evaluate("document.activeElement.pathname")
            tab.keyboard.press("Enter")
            tab.wait_for_url(f"**{address}")
            tab.locator("#main:focus, [name=q]:focus").wait_for()
            assert tab.inner_text("nav a[aria-current]") == title


def test_a_page_prints_without_its_controls(chromium: Browser, team: Path, serve: Serve) -> None:
    views = _fill(team)
    with _context(chromium, serve()) as context:
        tab = context.new_page()
        tab.goto(views["step"])
        tab.emulate_media(media="print", color_scheme="dark")
        assert not tab.is_visible("nav")
        assert tab.is_visible("pre.block")
        assert tab.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"


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
        tab.locator("button", has_text="Quarantine:").wait_for()
        tab.click("button:has-text('Pin')")
        tab.locator("h1", has_text="pinned").wait_for()
        tab.click("button:has-text('Undo the pin')")
        tab.locator("button", has_text="Pin:").wait_for()
        tab.click("button:has-text('Delete …')")
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
