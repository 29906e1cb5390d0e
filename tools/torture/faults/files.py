"""Hostile files in an indexed folder: each is reported or read within limits, and the rest is found."""

from __future__ import annotations

import io
import os
import resource
import time
import zipfile
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

from devmem import DevmemError, load_workflow
from devmem.stores import MemoryQuery
from devmem.workflow import make_store
from tools.torture.children import Child
from tools.torture.faults.bombs import BOMBS
from tools.torture.results import Plan, Result
from tools.torture.stores import EMBEDDER

_SECONDS: Final = 60.0
"""Longest time to index one hostile file and the good one beside it."""
_BYTES: Final = 64 << 20
"""Largest index of one hostile file."""
_MEMORY: Final = 2 << 30
"""Address space that indexing may add."""
_WORKFLOW: Final = """\
memory:
  - name: tortured
    type: file
    config:
      index_path: index.db
      file_sources: [{path: docs}]
      limits: {max_seconds: 5}
      embedding: {provider: openai, model: hash, api_key: unused, base_url: 'http://127.0.0.1:9/v1'}
"""
Make = Callable[[Path, Random], None]


def run(plan: Plan) -> list[Result]:
    """Index each kind of hostile file, and each bomb, beside a good one, in a process of its own."""
    bombs = {made.__name__: made for made in BOMBS}
    return [
        _index_each(plan, "hostile file", _KINDS, plan.extent(short=1, full=200 // len(_KINDS) + 1)),
        _index_each(plan, "file that becomes large when it is read", bombs, plan.extent(short=1, full=4)),
    ]


def _index_each(plan: Plan, fault: str, kinds: Mapping[str, Make], times: int) -> Result:
    result = Result(fault=fault)
    for repeat in range(times):
        for name, make in islice(kinds.items(), plan.extent(short=4, full=len(kinds))):
            _index(plan, f"{name}-{repeat}", make, result)
    return result


def _index(plan: Plan, name: str, make: Make, result: Result) -> None:
    folder = plan.folder / f"files-{name}"
    docs = folder / "docs"
    docs.mkdir(parents=True)
    (folder / "workflow.yaml").write_text(_WORKFLOW, encoding="utf-8")
    (docs / "good.md").write_text("# Good\n\nThe wombat lives in a burrow.\n", encoding="utf-8")
    (folder / "outside.md").write_text("# Outside\n\nThe platypus is a secret.\n", encoding="utf-8")
    make(docs, plan.random("files", name))
    started = time.monotonic()
    with Child(lambda send: _read(folder, send)) as child:
        said = child.wait_for_lines(4, _SECONDS)
        if len(said) < 1:
            child.kill()
        else:
            said = child.finish()
    result.tried += 1
    where = f"seed {plan.seed}, {name}"
    if "found" not in said:
        took = time.monotonic() - started
        result.fail(
            "unrecovered", f"{where}: the good file is not found after {took:.0f} s: {said[-1:]}, {child.status}"
        )
    if "leaked" in said:
        result.fail("leaked", f"{where}: a file outside of the source was read")
    if (size := sum(file.stat().st_size for file in folder.glob("index.db*"))) > _BYTES:
        result.fail("unrecovered", f"{where}: the index takes {size >> 20} MiB")


def _read(folder: Path, send: Callable[[str], None]) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, resource.RLIM_INFINITY))
    store = make_store(load_workflow(folder / "workflow.yaml"), "tortured", embedders=lambda _: EMBEDDER)
    try:
        store.load()
        if any("burrow" in hit.item.full_text() for hit in store.search(MemoryQuery(text="wombat burrow", limit=3))):
            send("found")
        if any("secret" in hit.item.full_text() for hit in store.search(MemoryQuery(text="platypus", limit=3))):
            send("leaked")
    except DevmemError as error:
        send(f"refused {error}")
    finally:
        store.close()


def _link_to_itself(docs: Path, _: Random) -> None:
    (docs / "loop.txt").symlink_to("loop.txt")


def _link_to_a_parent(docs: Path, _: Random) -> None:
    (docs / "up").symlink_to("..", target_is_directory=True)


def _link_outside(docs: Path, _: Random) -> None:
    (docs / "out.md").symlink_to("../outside.md")


def _name_that_is_not_utf8(docs: Path, chance: Random) -> None:
    name = bytes(chance.choice(range(0x80, 0xFF)) for _ in range(5)) + b".txt"
    Path(os.fsdecode(os.fsencode(docs) + b"/" + name)).write_text("a strange name", encoding="utf-8")


def _pipe(docs: Path, _: Random) -> None:
    os.mkfifo(docs / "pipe.txt")


def _csv_with_a_long_header(docs: Path, chance: Random) -> None:
    header = ",".join("column" * 20 + str(number) for number in range(chance.randrange(100, 400)))
    (docs / "wide.csv").write_text(header + "\n" + "1\n" * 4000, encoding="utf-8")


def _csv_of_one_quote(docs: Path, _: Random) -> None:
    (docs / "quote.csv").write_text('a,b\n"' + "x,\n" * 200_000, encoding="utf-8")


def _html_of_comments(docs: Path, _: Random) -> None:
    (docs / "comments.html").write_text("<!--" * 300_000, encoding="utf-8")


def _html_nested(docs: Path, _: Random) -> None:
    (docs / "nested.html").write_text("<div>" * 200_000, encoding="utf-8")


def _docx_of_many_paragraphs(docs: Path, _: Random) -> None:
    body = b"<w:p><w:r><w:t>x</w:t></w:r></w:p>" * 500_000
    start = b'<?xml version="1.0"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", start + body + b"</w:body></w:document>")
        archive.writestr("[Content_Types].xml", b"<Types/>")
    (docs / "bomb.docx").write_bytes(content.getvalue())


def _json_nested(docs: Path, _: Random) -> None:
    (docs / "deep.json").write_text("[" * 500_000, encoding="utf-8")


def _one_long_line(docs: Path, _: Random) -> None:
    (docs / "line.txt").write_text("word " * 2_000_000, encoding="utf-8")


def _random_bytes(docs: Path, chance: Random) -> None:
    for ending in ("txt", "md", "html", "csv", "json", "docx", "pdf", "py"):
        (docs / f"noise.{ending}").write_bytes(chance.randbytes(20_000))


def _damaged_pdf(docs: Path, chance: Random) -> None:
    (docs / "broken.pdf").write_bytes(b"%PDF-1.7\n1 0 obj\n<< /Length 99999999 >>\nstream\n" + chance.randbytes(3000))


def _python_that_does_not_parse(docs: Path, _: Random) -> None:
    (docs / "broken.py").write_text("def f(:\n" + "(" * 10_000, encoding="utf-8")


def _controls(docs: Path, _: Random) -> None:
    (docs / "controls.md").write_text("".join(map(chr, range(1, 0x3000))) * 3, encoding="utf-8")


_KINDS: Final[dict[str, Make]] = {
    made.__name__.strip("_"): made
    for made in (
        _link_to_itself,
        _name_that_is_not_utf8,
        _pipe,
        _csv_with_a_long_header,
        _link_to_a_parent,
        _link_outside,
        _csv_of_one_quote,
        _html_of_comments,
        _html_nested,
        _docx_of_many_paragraphs,
        _json_nested,
        _one_long_line,
        _random_bytes,
        _damaged_pdf,
        _python_that_does_not_parse,
        _controls,
    )
}
