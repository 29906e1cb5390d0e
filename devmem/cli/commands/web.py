"""`devmem web`: a page that shows what is remembered, what agents were shown, and why."""

from __future__ import annotations

import webbrowser
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from devmem.cli.declaring import argument, option
from devmem.cli.failures import usage_errors
from devmem.cli.inputs import whole_id
from devmem.cli.options import checked_name
from devmem.cli.targets import Session, announce, find_store, load_with_progress
from devmem.cli.terminal import Terminal
from devmem.config.workflow import Workflow
from devmem.errors import CommandError, MissingExtraError
from devmem.memory.opening import is_workflow
from devmem.model.caller import DEFAULT_SESSION
from devmem.storage.pending import STATE_FILE
from devmem.storage.recall_log import RecallLog
from devmem.workflow.stores import load_store, load_workflow, open_stores, session_folder

if TYPE_CHECKING:
    from devmem.web.desk import Desk

_HOST = "127.0.0.1"
_MOST_STEPS = 10_000


def web(
    terminal: Terminal,
    target: Annotated[str, argument("TARGET", "A file, a workflow, a store of one, or a URL.")],
    port: Annotated[int, option("Port; 0 takes a free one.", metavar="PORT", min=0, max=65_535)] = 0,
    user: Annotated[str | None, option("Reach only this user's items.", metavar="ID")] = None,
    read_only: Annotated[bool, option("Refuse every change.")] = False,
    browser: Annotated[bool, option("Open the page in the browser.", "--open")] = False,
    export: Annotated[
        Path | None, option("Instead of serving, write what a run was shown as a page.", metavar="FOLDER")
    ] = None,
    run: Annotated[str | None, option("With --export: this run; by default the last one.", metavar="RUN")] = None,
    mask: Annotated[bool, option("With --export: replace the names of users and agents.")] = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Open a page that shows what is remembered, and why.

    The page also shows what agents were shown at each step, if the workflow has `record_recalls: true`, who reads and
    writes what, and the state of the stores. The address that is printed works once, and only on this machine. Needs
    the extra `web`.

    Examples:
        devmem web notes.db
        devmem web team.yaml --open
        devmem web notes.db --user ann --read-only
        devmem web team.yaml --export report --mask
    """
    for package in ("jinja2", "multipart", "starlette", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtraError(feature="devmem web", package=package, extra="web")
    from devmem.web.desk import Desk

    user = None if user is None else checked_name("--user", user)
    workflow, names = _target(terminal, target, session)
    if export is not None:
        _export(terminal, RecallLog(session_folder(workflow, session) / STATE_FILE), export, run, user, mask=mask)
        return
    load = partial(load_store, looking=True) if read_only else partial(load_with_progress, terminal)
    with open_stores(workflow, names, session=session, load=load) as stores:
        _serve(terminal, Desk(workflow, stores, session=session, user=user, read_only=read_only), port, browser=browser)


def _serve(terminal: Terminal, desk: Desk, port: int, *, browser: bool) -> None:
    from devmem.server import checked_address
    from devmem.web.app import Server, make_app

    with usage_errors(), checked_address(_HOST, port) as listener:
        own = listener.getsockname()[1]
        app = make_app(desk, host=_HOST, port=own)
        link = f"http://{_HOST}:{own}/enter?token={app.link_token}"

        def ready() -> None:
            terminal.report("note", f"open {link} (works once; Ctrl-C ends)")
            if browser:
                webbrowser.open(link)

        Server(app, ready).run(sockets=[listener])


def _export(terminal: Terminal, log: RecallLog, folder: Path, run: str | None, user: str | None, *, mask: bool) -> None:
    """Write the steps of a run, or of the last one, as a page; of a page that is bound to a user, that user's."""
    from devmem.web.snapshot import write_snapshot

    known = [one.run for one in log.runs(limit=10_000) if one.run and user in (None, one.user)]
    if not known:
        raise CommandError(f"nothing is recorded in {log.file}: a workflow does with `record_recalls: true`.")
    chosen = known[0] if run is None else whole_id("run", run, known)
    steps = log.recalls(run=chosen, limit=_MOST_STEPS)
    terminal.report(
        "note", f"{len(steps):,} step(s) of run {chosen} written to {write_snapshot(steps, folder, mask=mask)}"
    )


def _target(terminal: Terminal, target: str, session: str) -> tuple[Workflow, list[str] | None]:
    """Return the workflow of a target, and the names of the stores that are meant; None is all of them."""
    if is_workflow(target):
        workflow = load_workflow(target)
        announce(terminal, workflow)
        return workflow, None
    place = find_store(terminal, target, session=session)
    return place.workflow, [place.store]
