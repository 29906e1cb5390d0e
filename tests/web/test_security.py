"""The page lets none of these through: other sites, other users, guessed tokens, and markup in stored texts."""

from __future__ import annotations

import http.client
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

import devmem
from devmem import MemoryItem, Scope, load_workflow, open_stores, record_tool
from devmem.memory import record_recall
from devmem.recording import InteractionLog, InteractionRecorder
from devmem.stores import Provenance, SourceKind
from tests.web.conftest import Page, Serve, ask, remember

_PAYLOADS = [
    f"{open_}{body}{close}"
    for open_ in ("", '"', "'", "</bdi>", "</textarea>", "</title>", "--><!--", '"><svg/onload=alert(1)>')
    for body in (
        "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg onload=alert(1)>", "javascript:alert(1)",
        "{{ 7*7 }}{% raw %}", "<a href=javascript:alert(1)>x</a>", "<iframe srcdoc='<script>1</script>'>",
        "<math><mi//xlink:href='data:x,<script>1</script>'>", "\x1b[31mred\x1b[0m", "\u202egnp.exe", "&lt;b&gt;",
        "<style>*{display:none}</style>", "<meta http-equiv=refresh content=0>",
    )
    for close in ("", "<!--")
]  # fmt: skip


_ADDRESSES = ("href", "src", "action", "formaction", "xlink:href", "data", "srcdoc", "hx-get", "hx-post")
"""Attributes that a browser follows."""


class _Markup(HTMLParser):
    """Collects what a browser would carry out, and what reorders a line."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str | None] = []
        self.handlers: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        """Without what stands in a field, which is changed as it is stored."""

    def handle_data(self, data: str) -> None:
        if self.lasttag != "textarea":
            self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        values = dict(attrs)
        if tag == "script":
            self.scripts.append(values.get("src"))
        self.handlers += [
            name
            for name, value in attrs
            if name.startswith("on") or (name in _ADDRESSES and (value or "").strip().startswith("javascript:"))
        ]
        self.handlers += ["refresh"] if values.get("http-equiv") == "refresh" else []


@pytest.mark.parametrize("every", [40, pytest.param(1, marks=pytest.mark.kit)])
def test_no_stored_text_becomes_markup(team: Path, serve: Serve, every: int) -> None:
    """Payloads in texts, metadata, names, ids, questions, runs and names of files, on every view."""
    assert len(_PAYLOADS) >= 200
    names = [payload.replace("/", "|") for payload in _PAYLOADS]
    items = [
        MemoryItem(
            id=f"i{at}{name}",
            content_summary=f"launch {payload}",
            metadata={payload: payload},
            scope=Scope(conversation=name, agent=payload),
            provenance=Provenance(kind=SourceKind.TOOL, name=payload),
        )
        for at, (payload, name) in enumerate(zip(_PAYLOADS, names, strict=True))
    ]  # fmt: skip
    with devmem.open(f"{team}#notes") as memory:
        memory.store.add(items)
        for payload in _PAYLOADS[::every]:
            scope = memory.scoped(user="ann", agent=payload, conversation=payload)
            record_recall(scope, payload, memory.search(f"launch {payload}"), host=payload, began=0.0)
    ask(team, f"launch {_PAYLOADS[0]}")
    page = serve()
    with page.browser() as browser:
        views = [browser.get("/", params={"q": f"launch {payload}", "limit": "50"}) for payload in _PAYLOADS[::every]]
        views += [browser.get("/", params={"q": "launch", "node": "helper", "user": one}) for one in _PAYLOADS[::every]]
        views += [browser.get(f"/item/notes/{_quoted(item.id)}") for item in items[::every]]
        views += [browser.get(path) for path in ("/shown", "/talk", "/health", "/who", "/transfer")]
        views += [browser.get(f"/step/{number}") for number in range(1, len(_PAYLOADS[::every]) + 2)]
        views += [browser.get("/shown", params={"run": payload}) for payload in _PAYLOADS[::every]]
        views += [browser.get("/who", params={"user": payload}) for payload in _PAYLOADS[::every]]
        views += [browser.get("/talk", params={"store": "notes", "conversation": name}) for name in names[::every]]
        for payload, name in list(zip(_PAYLOADS, names, strict=True))[::every]:
            views.append(_upload(page, browser, f"{name}.jsonl", json.dumps({"text": payload, "speaker": payload})))
            views.append(page.post(browser, f"/item/notes/{_quoted(items[names.index(name)].id)}/forget"))
    for view in views:
        found = _Markup()
        found.feed(view.text)
        assert view.status_code == 200, view.text
        assert [one for one in found.scripts if not (one or "").startswith("/static/")] == []
        assert found.handlers == []
        assert not found.tags & {"iframe", "img", "style", "math", "object", "embed"}
        assert not set(found.text) & set("\x1b\u202e")


def test_a_page_allows_only_its_own_scripts(team: Path, serve: Serve) -> None:
    with serve().browser() as browser:
        first, second = browser.get("/"), browser.get("/")
    policy = first.headers["content-security-policy"]
    nonce = re.search(r"script-src 'nonce-([^']+)'", policy)
    assert nonce is not None
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert first.text.count(f'nonce="{nonce[1]}"') == 2
    assert nonce[1] not in second.text
    assert first.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost:1", "", "127.0.0.1"])
def test_another_name_for_this_machine_is_refused(team: Path, serve: Serve, host: str) -> None:
    """DNS rebinding: the browser believes that a name of the attacker's is this page."""
    with serve().browser() as browser:
        assert browser.get("/", headers={"host": host}).status_code in (400, 421)


def test_nobody_enters_without_the_link(team: Path, serve: Serve) -> None:
    page = serve()
    item = remember(team, "The code is 4711.")
    with httpx.Client(base_url=page.address, trust_env=False) as stranger:
        for path in ("/", "/?q=code", f"/item/notes/{item}", "/shown", "/static/style.css", "/enter", "/enter?token=x"):
            answer = stranger.get(path)
            assert answer.status_code == 401
            assert "4711" not in answer.text
        assert stranger.get("/", headers={"cookie": "devmem=x"}).status_code == 401


def test_the_link_works_once(team: Path, serve: Serve) -> None:
    page = serve()
    link = f"/enter?token={page.guard.link_token}"
    with page.browser() as browser, httpx.Client(base_url=page.address, trust_env=False) as stranger:
        assert stranger.get(link).status_code == 401
        assert browser.get("/").status_code == 200
        cookie = next(iter(browser.cookies.jar))
        assert cookie.has_nonstandard_attr("HttpOnly")
        assert cookie.get_nonstandard_attr("SameSite") == "strict"


def test_the_link_is_worth_nothing_after_some_guesses(team: Path, serve: Serve) -> None:
    page = serve()
    token = page.guard.link_token
    with httpx.Client(base_url=page.address, trust_env=False) as stranger:
        for guess in range(5):
            assert stranger.get(f"/enter?token={guess}").status_code == 401
        assert stranger.get(f"/enter?token={token}").status_code == 401


_FORMS = {
    "/item/notes/{item}/edit": {"text": "x", "version": ""},
    "/item/notes/{item}/mark": {"how": "quarantine", "version": ""},
    "/item/notes/{item}/forget": {"sure": "yes"},
    "/runs/end": {"store": "notes", "run": "r", "how": "commit"},
    "/transfer/check": {"store": "notes"},
    "/transfer/import": {"store": "notes", "upload": ""},
    "/transfer/export": {"store": "notes", "format": "json"},
}
"""Every address that takes a form, with fields of a form that would be carried out."""


def test_every_form_of_the_page_is_tried_here(team: Path, serve: Serve) -> None:
    assert {path.replace("{store}", "notes") for path in serve().posted} == _FORMS.keys()


_OTHER_SITES: tuple[dict[str, str], ...] = (
    {}, {"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"}, {"origin": "{own}", "sec-fetch-site": "cross-site"},
)  # fmt: skip
"""Headers of requests that another site makes a browser send."""


@pytest.mark.parametrize(
    ("headers", "token", "read_only"),
    [
        *((headers, "{own}", False) for headers in _OTHER_SITES),
        *(({"origin": "{own}"}, token, False) for token in ("", "x", "é")),
        ({"origin": "{own}"}, "{own}", True),
    ],
)
def test_a_form_that_is_not_the_pages_own_changes_nothing(
    team: Path, serve: Serve, headers: dict[str, str], token: str, read_only: bool
) -> None:
    item = remember(team, "Keep me.")
    page = serve(read_only=read_only)
    own = {name: value.replace("{own}", page.address) for name, value in headers.items()}
    csrf = token.replace("{own}", page.guard.csrf)
    with page.browser() as browser:
        for path, form in _FORMS.items():
            answer = browser.post(path.format(item=item), data={"csrf": csrf, **form}, headers=own)
            assert (path, answer.status_code) == (path, 403)
        shown = browser.get(f"/item/notes/{item}").text
    assert ("Keep me." in shown, "<textarea" in shown) == (True, not read_only)
    with devmem.open(f"{team}#notes") as memory:
        assert [record.text for record in memory] == ["Keep me."]


def test_a_page_of_one_user_reaches_nobody_elses(team: Path, serve: Serve) -> None:
    bobs = remember(team, "Bob's code is 4711.", user="bob")
    remember(team, "Ann's code is 1234.", user="ann")
    ask(team, "code")
    ask(team, "code", user="bob")
    with devmem.open(f"{team}#notes") as memory, memory.scoped(user="bob").run("bobs") as run:
        run.add("Bob's plan is 4711.")
    page = serve(user="ann")
    with page.browser() as browser:
        assert "1234" in browser.get("/", params={"q": "code"}).text
        views = [browser.get("/", params={"q": "code", "user": user}) for user in ("bob", "-", "")]
        views += [browser.get("/", params={"q": "code", "user": "bob", "node": "helper"})]
        views += [browser.get(path) for path in (f"/item/notes/{bobs}", f"/item/notes/{bobs}/text", "/talk", "/shown")]
        views += [browser.get(path) for path in ("/step/2", f"/shown?run={bobs}", "/health?examine=notes")]
        marked = [page.post(browser, f"/item/notes/{bobs}/mark", how=how, version="") for how in ("pin", "quarantine")]
        marked += [page.post(browser, "/runs/end", store="notes", run="bobs", how=how) for how in ("commit", "revert")]
        views += [browser.get("/health")]
        export = page.post(browser, "/transfer/export", store="notes", format="json").text
        assert "1234" in export
        marked += [page.post(browser, "/transfer/check", store="notes")]
        views += [page.post(browser, f"/item/notes/{bobs}/forget", sure="yes")]
        views += [page.post(browser, f"/item/notes/{bobs}/edit", text="x", version="")]
    assert "4711" not in export
    assert [view.status_code for view in marked] == [404, 404, 400, 400, 400]
    assert not any("4711" in view.text for view in [*views, *marked])
    assert [view.status_code for view in views[-2:]] == [404, 404]
    with devmem.open(f"{team}#notes") as memory:
        record = memory.scoped(user="bob").get(bobs)
        assert record is not None
        assert (record.trust, record.metadata) == (1.0, {})


def test_a_page_of_one_user_shows_no_calls(team: Path, serve: Serve) -> None:
    """A record of a call names no user."""
    team.write_text("memory: [{name: calls, type: conversation, config: {memory_path: calls.db}}]", encoding="utf-8")
    with open_stores(load_workflow(team)) as stores:
        memory = stores["calls"]
        assert isinstance(memory, InteractionLog)
        with (
            InteractionRecorder(memory, team.parent / "journal") as recorder,
            recorder.trace(conversation="c1", trace="t1"),
            record_tool("vault", "Bob's code is 4711."),
        ):
            pass
    asked = {"store": "calls", "conversation": "c1"}
    for user, is_shown in ((None, True), ("ann", False)):
        with serve(user=user).browser() as browser:
            assert ("4711" in browser.get("/talk", params=asked).text) == is_shown


@pytest.mark.parametrize("path", ["../app.py", "%2e%2e/app.py", "..%2fapp.py", "/etc/passwd", "%00"])
def test_no_file_beside_the_static_ones_is_served(team: Path, serve: Serve, path: str) -> None:
    with serve().browser() as browser:
        assert browser.get(f"/static/{path}").status_code == 404


def test_a_large_request_is_refused_before_it_is_read(team: Path, serve: Serve) -> None:
    page = serve()
    with page.browser() as browser:
        cookie = "; ".join(f"{one.name}={one.value}" for one in browser.cookies.jar)
    connection = http.client.HTTPConnection(page.address.removeprefix("http://"), timeout=20)
    try:
        connection.putrequest("POST", "/runs/end")
        for name, value in (("origin", page.address), ("cookie", cookie), ("content-length", str(1 << 40))):
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status == 413
    finally:
        connection.close()


@pytest.mark.parametrize(
    "path",
    [
        "/item/notes/..%2f..%2fteam.yaml",
        "/item/..%2fteam.yaml/x",
        "/item/notes/%00",
        "/step/../../etc",
        "/item/no/x/text",
    ],
)
def test_no_address_leaves_the_stores(team: Path, serve: Serve, path: str) -> None:
    with serve().browser() as browser:
        assert browser.get(path).status_code in (404, 405)
        assert browser.get("/health", params={"examine": "../../etc"}).status_code == 200
        assert browser.get("/talk", params={"store": "../../etc", "conversation": "c"}).status_code == 200


def _upload(page: Page, browser: httpx.Client, name: str, content: str) -> httpx.Response:
    form = {"csrf": page.guard.csrf, "store": "notes"}
    return browser.post("/transfer/check", data=form, files={"file": (name, content)}, headers={"origin": page.address})


def _quoted(item_id: str) -> str:
    return quote(item_id, safe="")
