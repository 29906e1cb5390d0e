"""The views: each takes a request, reads the desk, and gives a template what it shows."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse

from devmem.errors import DevmemError, ItemNotFoundError, ReadOnlyPageError, VersionConflictError
from devmem.model.caller import Stage
from devmem.model.items import MemoryItem, is_pinned, is_quarantined
from devmem.model.results import SearchReport
from devmem.search.rendering import speaker_of
from devmem.storage.recall_log import Recall, RecallEntry
from devmem.text.analysis import shorten
from devmem.text.display import visible
from devmem.text.files import DISK_FULL
from devmem.text.moments import local
from devmem.text.spelling import corrected
from devmem.views.diagrams import participants_of, transfers_of
from devmem.views.receipts import receipt_lines, workflow_receipt_lines
from devmem.web.charts import score_bars
from devmem.web.desk import Desk, StoreAnswer
from devmem.web.guard import CSRF_FIELD, MAX_BODY, PageGuard
from devmem.web.languages import Language, language_of, translated
from devmem.web.question import UNSCOPED, Question, address_of, question_of, start_of
from devmem.web.texts import compared, marked, shown
from devmem.web.transfers import Transfers
from devmem.workflow.forgetting import WorkflowReceipt
from devmem.workflow.plan import accesses_of

_FOLDER: Final = Path(__file__).parent
VIEWS: Final = (("/", "Memories"), ("/shown", "What was shown"), ("/who", "Who sees what"),
                 ("/talk", "Conversations"), ("/health", "Health"), ("/transfer", "Import and export"))  # fmt: skip
_MOST_STEPS: Final = 500


def environment() -> Environment:
    """Return the environment of the templates.

    All that they show is escaped, control characters and those that steer the order of a line as well; `raw` is for the
    values of fields, which come back as they are stored.
    """
    made = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_readable,
    )  # fmt: skip
    made.filters.update(when=when, age=age, shown=shown, raw=escape, number=lambda value: f"{value:.3f}")
    made.globals.update(
        is_pinned=is_pinned,
        is_quarantined=is_quarantined,
        speaker=_speaker,
    )
    made.globals.update(compared=compared, marked=marked, shorten=shorten, views=VIEWS)
    return made


def _speaker(item: MemoryItem, language: Language) -> str:
    """Return who said an item, or else the agent that wrote it; empty where neither is known."""
    return speaker_of(item, language).rstrip(": ：") or item.scope.agent or ""


def _readable(value: object) -> object:
    """Return what a template shows of a value; markup is its own."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def when(seconds: float | datetime | None) -> str:
    """Return a time of the local zone to the second; empty for None, and for one that no calendar has."""
    if seconds is None:
        return ""
    try:
        at = local(seconds.timestamp() if isinstance(seconds, datetime) else seconds)
    except (ValueError, OverflowError, OSError):
        return str(seconds)
    return f"{at:%Y-%m-%d %H:%M:%S %Z}"


def age(seconds: float, language: Language) -> str:
    """Return a duration in its largest whole unit, such as `3 days`; one below a second, or negative, is 0 seconds."""
    for name, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= size:
            return f"{int(seconds // size):,} {translated(name, language)}"
    return f"{int(max(seconds, 0))} {translated('seconds', language)}"


class Pages:
    """The endpoints of the page."""

    def __init__(self, desk: Desk, guard: Callable[[], PageGuard]) -> None:
        """Take the desk, and what returns the guard in front of the application."""
        self._desk, self._guard, self._transfers = desk, guard, Transfers(desk)
        self._templates = environment()

    def _page(self, request: Request, template: str, status: int = 200, **context: object) -> HTMLResponse:
        language = language_of(request.query_params.get("lang") or request.headers.get("accept-language", ""))
        own = {
            "desk": self._desk,
            "path": request.url.path,
            "nonce": request.state.nonce,
            "csrf": request.state.csrf,
            "lang": language,
            "_": lambda text: translated(text, language),
        }
        return HTMLResponse(self._templates.get_template(template).render({**own, **context}), status)

    def search(self, request: Request) -> Response:
        """List items, or show the answers of the stores to a question, or what an agent would be shown."""
        beside = request.query_params.get("beside", "")
        context: dict[str, Any] = {
            "asked": Question(), "answers": [], "beside": [], "block": None, "error": "", "listing": None,
            "names": self._desk.names(),
        }  # fmt: skip
        try:
            asked = context["asked"] = question_of(request.query_params)
            if not asked.query:
                start = start_of(request.query_params.get("older", ""), len(self._desk.memories))
                context["listing"] = self._desk.listed(asked, start)
            if asked.query and asked.node:
                context["block"] = self._desk.ask_as(asked) or False
            share = 0.5 if beside else 1.0
            if asked.query and not asked.node:
                context["answers"] = [self._card_of(one, asked) for one in self._desk.ask(asked, share=share)]
            if beside and asked.node:
                context["error"] = "only direct searches are compared: choose either an agent or a comparison"
            elif beside and asked.query:
                changed = {"words_alone": True} if beside == "words" else {"as_of": beside}
                other = asked.model_copy(update=changed)
                context["beside"] = [self._card_of(one, other) for one in self._desk.ask(other, share=share)]
        except (DevmemError, ValueError) as error:
            context["error"] = str(error)
        status = 400 if context["error"] else 200
        return self._page(
            request, "search.html", status, beside_field=beside, stages=list(Stage), unscoped=UNSCOPED,
            address=lambda **fields: address_of(request.query_params, **fields), **context,
        )  # fmt: skip

    def _card_of(self, answer: StoreAnswer, asked: Question) -> dict[str, Any]:
        """Return an answer with the bars of its hits, for the template; one without hits with whose items fit."""
        report: SearchReport = answer.report
        is_empty = not report.hits and not answer.error
        return {
            "answer": answer,
            "asked": asked,
            "question": corrected(asked.query, report.corrected),
            "hits": list(zip(report.hits, score_bars(report.hits), answer.near, strict=True)),
            "elsewhere": self._desk.elsewhere(asked, answer.store) if is_empty else [],
        }

    def _item(self, request: Request) -> tuple[str, MemoryItem]:
        """Return the store and the item that an address names.

        Raises:
            ItemNotFoundError: there is none within reach.
        """
        store, item = request.path_params["store"], request.path_params["item"]
        record = self._desk.record(store, item) if store in self._desk.memories else None
        if record is None:
            raise ItemNotFoundError(item)
        return store, record

    def item(self, request: Request) -> Response:
        """Show one item with all that belongs to it."""
        store, record = self._item(request)
        parents, derived = self._desk.relatives(store, record)
        return self._page(
            request, "item.html", store=store, record=record, parents=parents, derived=derived,
            history=self._desk.history(store, record), neighbours=self._desk.neighbours(store, record),
            archived=record.id not in self._desk.memories[store],
            steps=self._reachable(self._desk.recalls.recalls(item=record.id, limit=20)),
        )  # fmt: skip

    def text(self, request: Request) -> Response:
        """Return the whole text of an item as a download."""
        _, record = self._item(request)
        headers = {"content-disposition": 'attachment; filename="item.txt"'}
        return PlainTextResponse(record.text.encode("utf-8", "replace"), headers=headers)

    def edit(self, request: Request, form: FormData) -> Response:
        """Change the text of an item, and show it."""
        store, record = self._item(request)
        self._desk.edit(store, record.id, str(form.get("text", "")), str(form.get("version", "")))
        return RedirectResponse(request.url.path.removesuffix("/edit"), 303)

    def mark(self, request: Request, form: FormData) -> Response:
        """Pin an item or put it in quarantine, undo that, or bring it back from the archive; show it."""
        (store, record), how = self._item(request), str(form.get("how", ""))
        if how == "restore":
            self._desk.restore(store, record.id)
        else:
            self._desk.mark(store, record.id, how, str(form.get("version", "")))
        return RedirectResponse(request.url.path.removesuffix("/mark"), 303)

    def forget(self, request: Request, form: FormData) -> Response:
        """Show what forgetting an item would reach, or forget it and show the receipt."""
        (store, record), dry_run = self._item(request), form.get("sure") != "yes"
        lines: list[str] = []
        for receipt in self._desk.forget(store, record.id, dry_run=dry_run):
            if isinstance(receipt, WorkflowReceipt):
                lines += workflow_receipt_lines(receipt, dry_run=dry_run)
            else:
                lines += receipt_lines(receipt, len(self._desk.memories[store]), dry_run=dry_run)
        return self._page(
            request, "receipt.html", store=store, item=record.id, lines=lines, dry_run=dry_run, text=record.text
        )

    def end_run(self, _request: Request, form: FormData) -> Response:
        """Commit, discard or revert a run."""
        self._desk.end_run(str(form.get("store", "")), str(form.get("run", "")), str(form.get("how", "")))
        return RedirectResponse("/health", 303)

    def form(self, change: Callable[[Request, FormData], Response]) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a form of this page: it makes a change, or says why not."""

        async def changed(request: Request) -> Response:
            try:
                async with request.form() as form:
                    if not self._guard().is_csrf(form.get(CSRF_FIELD)):
                        return PlainTextResponse("This form belongs to another page; reload the page.\n", 403)
                    return await run_in_threadpool(change, request, form)
            except ItemNotFoundError as error:
                return self.failed(request, error)
            except ReadOnlyPageError as error:
                return self._missing(request, str(error), 403)
            except VersionConflictError:
                return self._missing(request, "Somebody else changed this item meanwhile. Nothing was changed.", 409)
            except (DevmemError, ValueError) as error:
                return self._missing(request, str(error), 400)
            except OSError as error:
                # A file that is sent is kept in the folder for temporary files, which a failed write does not name.
                is_full = error.errno in DISK_FULL
                place = error.filename or (f"{tempfile.gettempdir()} (TMPDIR names another folder)" if is_full else "")
                reason = error.strerror or str(error)
                return self._missing(request, f"{place}: {reason}" if place else reason, 507 if is_full else 500)

        return changed

    def shown(self, request: Request) -> Response:
        """Show the runs in which agents were shown something, the steps of one, or those that showed a text."""
        run = request.query_params.get("run") or None
        node = request.query_params.get("node") or None
        text = request.query_params.get("q", "").strip() or None
        found = self._desk.recalls.recalls(run=run, node=node, text=text, limit=_MOST_STEPS) if run or text else []
        steps = self._reachable(found)
        runs = [one for one in self._desk.recalls.runs() if self._desk.user in (None, one.user)]
        return self._page(
            request, "shown.html", runs=runs, run=run, text=text or "", steps=steps,
            answers=self._desk.answers(steps), is_recorded=bool(self._desk.workflow.record_recalls),
        )  # fmt: skip

    def step(self, request: Request) -> Response:
        """Show one step: the block, its entries, what was left out, and what differs from the step before."""
        step = self._desk.recalls.recall(request.path_params["number"])
        if step is None or not self._reachable([step]):
            return self._missing(request, "There is no such step, or it is out of reach.")
        before = [one for one in self._desk.recalls.recalls(run=step.run, node=step.node, limit=_MOST_STEPS)
                  if one.id < step.id]  # fmt: skip
        bars = list(zip(step.entries, score_bars(step.entries), strict=True))
        return self._page(request, "step.html", step=step, before=before[-1] if before else None, bars=bars,
                          answer=self._desk.answers([step]).get(step.id), is_here=self._is_here)  # fmt: skip

    def _reachable(self, steps: list[Recall]) -> list[Recall]:
        """Return the steps of runs within reach: of a page that is bound to a user, that user's."""
        return [step for step in steps if self._desk.user in (None, step.user)]

    def _is_here(self, entry: RecallEntry) -> str:
        """Return whether the item of an entry is as it was: `same`, `changed`, `gone`, or `erased`."""
        if not entry.item:
            return "erased"
        record = self._desk.record(entry.store, entry.item) if entry.store in self._desk.memories else None
        if record is None:
            return "gone"
        return "same" if record.version == entry.version else "changed"

    def who(self, request: Request) -> Response:
        """Show which agents read and write which stores, when, and with which limits."""
        names = list(self._desk.memories)
        accesses = list(accesses_of(self._desk.workflow))
        rows = [(node, {one.store: one for one in accesses if one.node == node.id}) for node in self._desk.agents]
        return self._page(
            request, "who.html", rows=rows, names=names, user=request.query_params.get("user", "").strip()
        )

    def talk(self, request: Request) -> Response:
        """Show the conversations, or the messages and calls of one."""
        store, key = request.query_params.get("store", ""), request.query_params.get("conversation", "")
        is_chosen = store in self._desk.memories and bool(key)
        said = self._desk.said(store, key) if is_chosen else []
        transfers = transfers_of(said)
        calls = self._desk.calls(store, key) if is_chosen else []
        found = self._desk.conversations()
        return self._page(request, "talk.html", found=found, store=store, key=key, said=said, calls=calls,
                          transfers=transfers, names=participants_of(transfers))  # fmt: skip

    def health(self, request: Request) -> Response:
        """Show sizes, waiting work and runs; with `examine`, what is wrong with a store's files."""
        examined = request.query_params.get("examine", "")
        reports = self._desk.examine(examined) if examined in self._desk.memories else []
        infos = [(name, memory.store.info(), self._desk.growth(name)) for name, memory in self._desk.memories.items()]
        return self._page(request, "health.html", infos=infos, runs=list(self._desk.runs()), examined=examined,
                          reports=reports, facts=self._desk.fact_counts(), quarantined=self._desk.quarantined(),
                          slowest=self._desk.slowest(), outbox=self._desk.outbox(), place=self._place)  # fmt: skip

    def _place(self, location: str) -> str:
        """Return a path as a workflow has it, where it is in the workflow's folder."""
        if self._desk.workflow.file is None:
            return location
        return location.removeprefix(f"{self._desk.workflow.base_dir.absolute()}{os.sep}")

    def transfer(self, request: Request) -> Response:
        """Show the forms for import and export."""
        return self._transfer(request)

    def _transfer(self, request: Request, **found: object) -> HTMLResponse:
        context: dict[str, Any] = {"store": "", "upload": None, "checked": [], "imported": None, "most": MAX_BODY}
        return self._page(request, "transfer.html", **{**context, **found})

    def check_import(self, request: Request, form: FormData) -> Response:
        """Check a file that was sent, and store nothing."""
        self._transfers.check_may_import()
        sent = form.get("file")
        if not isinstance(sent, UploadFile) or not sent.filename:
            raise ValueError("no file was chosen")
        upload = self._transfers.keep(sent.file, sent.filename)
        return self._transfer(request, upload=upload, checked=self._transfers.check(upload), store=form.get("store"))

    def fill(self, request: Request, form: FormData) -> Response:
        """Import a file that was checked."""
        self._transfers.check_may_import()
        store = str(form.get("store", ""))
        upload = self._transfers.find(str(form.get("upload", "")))
        return self._transfer(request, store=store, imported=self._transfers.fill(store, upload))

    def export(self, _request: Request, form: FormData) -> Response:
        """Send the items of a store as a file."""
        kind = str(form.get("format", ""))
        parts = self._transfers.export(str(form.get("store", "")), kind)
        name = f"export.{'md' if kind == 'markdown' else 'json'}"
        return StreamingResponse(
            (part.encode("utf-8", "backslashreplace") for part in parts),
            headers={"content-disposition": f'attachment; filename="{name}"'},
            media_type="application/octet-stream",
        )

    def _missing(self, request: Request, message: str, status: int = 404) -> HTMLResponse:
        return self._page(request, "message.html", status, message=message)

    def failed(self, request: Request, error: Exception) -> Response:
        """Return the page for an error of a store, or for an item that cannot be shown."""
        if isinstance(error, ItemNotFoundError):
            return self._missing(request, "There is no such item, or it is out of reach.")
        return self._missing(request, str(error), 500)
