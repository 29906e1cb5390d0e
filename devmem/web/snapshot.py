"""A run's steps as a page in a folder, to attach to a report: what each agent was shown, without a server or links."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from devmem.errors import DataFileError
from devmem.storage.recall_log import Recall
from devmem.text.files import replace_file
from devmem.web.charts import score_bars
from devmem.web.languages import Language, translated
from devmem.web.pages import environment

_STYLE: Final = Path(__file__).parent / "static" / "style.css"


def write_snapshot(steps: list[Recall], folder: Path, *, mask: bool = False, language: Language = "en") -> Path:
    """Write the steps of a run, and return the file to open; nothing in it asks a server.

    Args:
        steps: the steps, in order.
        folder: is made; an earlier page in it is replaced.
        mask: write `user 1`, `agent 1` and so on in the place of the names of users, agents and conversations, wherever
            they stand as words. What the texts say otherwise stays.
        language: of the page's own words.

    Raises:
        DataFileError: it cannot be written.
    """
    shown = _masked(steps) if mask else steps
    bars = {step.id: list(zip(step.entries, score_bars(step.entries), strict=True)) for step in shown}
    page = environment().get_template("snapshot.html").render(
        steps=shown, bars=bars, run=shown[0].run if shown else None, lang=language,
        _=lambda text: translated(text, language),
    )  # fmt: skip
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_STYLE, folder / "style.css")
        replace_file(folder / "index.html", [page.encode("utf-8", "replace")])
    except OSError as error:
        raise DataFileError(folder, f"the snapshot cannot be written: {error}") from error
    return folder / "index.html"


def _masked(steps: Iterable[Recall]) -> list[Recall]:
    """Return the steps with other names."""
    found = list(steps)
    users = {name for step in found for name in (step.user, *(entry.user for entry in step.entries))}
    agents = {name for step in found for name in (step.agent, step.node, *(entry.agent for entry in step.entries))}
    talks = {step.conversation for step in found}
    names = {
        name: f"{kind} {number}"
        for kind, group in (("user", users), ("agent", agents - users), ("conversation", talks - users - agents))
        for number, name in enumerate(sorted(name for name in group if name), start=1)
    }
    if not names:
        return found
    # The longest name first: one may be the beginning of another.
    either = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    known = re.compile(rf"(?<!\w)(?:{either})(?!\w)")

    def hide(text: str | None) -> str | None:
        return None if text is None else known.sub(lambda match: names[match[0]], text)

    return [
        replace(
            step,
            user=hide(step.user),
            agent=hide(step.agent) or "",
            node=hide(step.node) or "",
            conversation=hide(step.conversation),
            query=hide(step.query),
            block=hide(step.block),
            failures=tuple(hide(one) or "" for one in step.failures),
            entries=tuple(
                replace(entry, user=hide(entry.user), agent=hide(entry.agent), source=hide(entry.source) or "",
                        text=hide(entry.text))
                for entry in step.entries
            ),
        )
        for step in found
    ]  # fmt: skip
