"""The formats of texts: each splits a file into sections, and the suffix says which one a file has."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, TypeAlias

from devmem.errors import UnreadableError
from devmem.text import decode_text, describe_guess
from devmem_stores.file.chunks import Section, lines_of, section_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


def plain(text: str) -> list[Section]:
    """Return a text as one section, which the chunker splits at sentences and lines."""
    lines = lines_of(text)
    return [section_of(lines, 0, len(lines))] if text.strip() else []


# Markdown: a section for each heading; code fences are kept whole.


_FENCES: Final = ("fence", "code_block")
_FRONT_MATTER: Final = re.compile(r"\A---[ \t]*\n.*?^(?:---|\.\.\.)[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heading:
    line: int
    """0-based."""
    after: int
    """The first line behind it."""
    level: int
    title: str


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")


def markdown(text: str) -> list[Section]:
    """Split a text at its headings; a part before the first one is a section too."""
    lines = lines_of(text)
    # A front matter's last line would make a heading of the line before it.
    front = _FRONT_MATTER.match(text)
    body = text if front is None else re.sub(r"[^\n]", "", front[0]) + text[front.end() :]
    tokens, headings = _parser().parse(body), list[_Heading]()
    for at, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map:
            title = "".join(part.content for part in tokens[at + 1].children or () if part.content).strip()
            headings.append(_Heading(line=token.map[0], after=token.map[1], level=int(token.tag[1:]), title=title))
    fences = [range(*token.map) for token in tokens if token.type in _FENCES and token.map]
    return [part for part in _parts(lines, headings, fences) if part.text.strip()]


def _parts(lines: Sequence[str], headings: Sequence[_Heading], fences: Sequence[range]) -> Iterator[Section]:
    start = headings[0].line if headings else 0
    path: list[_Heading] = []
    if start > 0:
        yield _part(lines, 0, start, path, fences)
    for at, heading in enumerate(headings):
        path = [*(above for above in path if above.level < heading.level), heading]
        following = headings[at + 1] if at + 1 < len(headings) else None
        end = following.line if following else len(lines)
        is_empty = not "".join(lines[heading.after : end]).strip()
        # A heading with nothing of its own goes with the one below it.
        if following is None or following.level <= heading.level or not is_empty:
            yield _part(lines, start, end, path, fences)
            start = end
    if start < len(lines):
        yield _part(lines, start, len(lines), path, fences)


def _part(lines: Sequence[str], start: int, end: int, path: Sequence[_Heading], fences: Sequence[range]) -> Section:
    inside = tuple(
        range(fence.start - start, min(fence.stop, end) - start) for fence in fences if start <= fence.start < end
    )
    return Section(
        text="".join(lines[start:end]),
        numbers=range(start + 1, end + 1),
        heading=tuple(heading.title for heading in path),
        whole=inside,
    )


# Source code: a section for each definition at the left edge, or in the body of a type.


_MODIFIERS: Final = (
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|pub(?:\([^)]*\))?|unsafe|extern"
    r"|inline|const|override|open|sealed|data|virtual|partial|local|declare)\s+)*"
)
_NAMED: Final = re.compile(
    rf"^(?P<indent>[ \t]*){_MODIFIERS}"
    r"(?:function\*?|class|interface|struct|enum|impl(?:<[^>]*>)?|trait|fn|func(?:\s*\([^)]*\))?|fun|def|defp|module|mod"
    r"|namespace|object|type|record|protocol|extension|sub|message|service"
    r"|create\s+(?:or\s+replace\s+)?(?:table|view|function|procedure|index|trigger))\s+"
    r"(?P<name>[A-Za-z_$][\w$.:]*)",
    re.IGNORECASE,
)
_C_LIKE: Final = re.compile(r"^(?P<indent>)[A-Za-z_][\w\s*&<>:,\[\]]*?(?P<name>[A-Za-z_~][\w:~]*)\s*\([^;]*$")
_SHELL: Final = re.compile(r"^(?P<indent>)(?P<name>[A-Za-z_][\w-]*)\s*\(\)\s*\{?\s*$")
_ARROW: Final = re.compile(r"^(?P<indent>)(?:export\s+)?(?:const|let|var)\s+(?P<name>[\w$]+)\s*=.*(?:=>|function\b)")
_STATEMENT: Final = re.compile(r"^(?:if|for|while|switch|else|return|catch|do|try|case|elif|with|match|when)\b")
_ABOVE: Final = re.compile(r"^\s*(?://|#|/\*|\*|@|--|\[)")
_DEEPEST: Final = 4
"""Blanks before a line that still may begin a definition: a method in a type's body."""


def code(text: str) -> list[Section]:
    """Split source code where definitions begin; comments and annotations right above one belong to it."""
    lines = lines_of(text)
    starts = list(_starts(lines))
    bounds = [(0, None), *starts] if not starts or starts[0][0] > 0 else starts
    ends = [start for start, _ in bounds[1:]] + [len(lines)]
    parts = (section_of(lines, start, end, symbol=name) for (start, name), end in zip(bounds, ends, strict=True))
    return [part for part in parts if part.text.strip()]


def _starts(lines: list[str]) -> Iterator[tuple[int, str | None]]:
    outer, least = "", 0
    for at, line in enumerate(lines):
        if len(line) > 400 or _STATEMENT.match(line.lstrip()):
            continue
        found = next(filter(None, (pattern.match(line) for pattern in (_NAMED, _SHELL, _ARROW, _C_LIKE))), None)
        if found is None or (indent := len(found["indent"].expandtabs(4))) > _DEEPEST:
            continue
        name = found["name"]
        if indent == 0:
            outer = name
        begin = at
        while begin > least and _ABOVE.match(lines[begin - 1]):
            begin -= 1
        yield begin, name if indent == 0 or not outer else f"{outer}.{name}"
        least = at + 1


_Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def python(text: str) -> list[Section]:
    """Split Python at its definitions, a class into its head and its methods; other versions' Python as other code."""
    try:
        with warnings.catch_warnings():
            # Warnings of the parser about other people's backslashes are not for this log.
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return code(text)
    lines = lines_of(text)
    return [part for part in _split(lines, tree.body, 0, len(lines), "") if part.text.strip()]


def _split(lines: Sequence[str], body: Sequence[ast.stmt], start: int, end: int, outer: str) -> Iterator[Section]:
    """Split the lines from `start` up to `end` (0-based) at the definitions among the statements."""
    at = start
    for statement in body:
        if not isinstance(statement, _Definition):
            continue
        begin = _begin(lines, statement, at)
        if at < begin:
            yield section_of(lines, at, begin, symbol=outer or None)
        stop = min(statement.end_lineno or begin + 1, end)
        name = f"{outer}.{statement.name}" if outer else statement.name
        if isinstance(statement, ast.ClassDef):
            yield from _split(lines, statement.body, begin, stop, name)
        else:
            yield section_of(lines, begin, stop, symbol=name)
        at = max(at, stop)
    if at < end:
        yield section_of(lines, at, end, symbol=outer or None)


def _begin(lines: Sequence[str], definition: _Definition, least: int) -> int:
    """Return the 0-based line where a definition begins, its decorators and the comment above it included."""
    line = min([definition.lineno, *(decorator.lineno for decorator in definition.decorator_list)]) - 1
    while line > least and lines[line - 1].lstrip().startswith("#"):
        line -= 1
    return max(line, least)


# Records, of CSV and JSON lines alike: each is a section `key: value`, a line a field.


_SNIFFED: Final = 16 * 1024
_LONGEST_FIELD: Final = 16 * 1024 * 1024


def delimited(text: str, delimiter: str | None = None) -> Iterator[Section]:
    """Return a section for each record of a table; the delimiter is detected when it is None."""
    csv.field_size_limit(_LONGEST_FIELD)
    if delimiter is None:
        try:
            delimiter = csv.Sniffer().sniff(text[:_SNIFFED], delimiters=",;\t|").delimiter
        except csv.Error:
            delimiter = ","  # one column, or a table too small to tell
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    names: list[str] | None = None
    first = 1
    try:
        for row in reader:
            if names is None:
                names = row
            else:
                pairs = [(names[at] if at < len(names) else "", value) for at, value in enumerate(row)]
                if (section := _record(pairs, first, reader.line_num)) is not None:
                    yield section
            first = reader.line_num + 1
    except csv.Error as error:
        raise UnreadableError(f"is no CSV: line {reader.line_num}: {error}") from error


def json_lines(text: str) -> Iterator[Section]:
    """Return a section for each line; a line that is no JSON is kept unchanged."""
    for number, line in enumerate(lines_of(text), start=1):
        try:
            value = json.loads(line)
            parts = value if isinstance(value, dict) else {"": value}
            fields = [(str(key), _written(part)) for key, part in parts.items()]
        except (ValueError, RecursionError):
            fields = [("", line)]
        if (section := _record(fields, number, number)) is not None:
            yield section


def _record(fields: Iterable[tuple[str, str]], first: int, last: int) -> Section | None:
    """Make the section of a record that stands on the lines `first` to `last`; None when all its fields are blank."""
    filled = [(name.strip(), value.strip()) for name, value in fields if value.strip()]
    text = "\n".join(f"{name}: {value}" if name else value for name, value in filled)
    if not text:
        return None
    # Its text is not the file's, so each of its lines stands for the whole record.
    return Section(text=text, numbers=[first] * (text.count("\n") + 1), last=last)


def _written(value: object) -> str:
    """Return a value of JSON as text; nested values are written as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_Reader: TypeAlias = Callable[[str], Iterable[Section]]
_TEXTS: Final[Mapping[_Reader, str]] = {
    markdown: ".md .markdown .mdx",
    python: ".py .pyi",
    delimited: ".csv",
    lambda text: delimited(text, "\t"): ".tsv",
    json_lines: ".jsonl .ndjson",
    code: (
        ".js .jsx .mjs .cjs .ts .tsx .java .kt .kts .scala .go .rs .c .h .cc .cpp .cxx .hpp .hh .cs .rb .php .swift .m "
        ".lua .pl .r .jl .ex .exs .erl .hs .ml .clj .dart .sh .bash .zsh .ps1 .sql .proto .graphql .vue .svelte"
    ),
}
_READERS: Final = {suffix: read for read, suffixes in _TEXTS.items() for suffix in suffixes.split()}
_HTML: Final = {".html", ".htm", ".xhtml"}
_BINARY: Final = {".pdf", ".docx"}


def read_sections(name: str, data: bytes, encoding: str | None) -> Iterable[Section]:
    """Split a file into sections, by the format that its suffix names.

    Raises:
        UnreadableError: the content is not what it should be.
        MissingExtraError: the package that reads this format is not installed.
    """
    suffix = _suffix(name)
    if suffix in _BINARY | _HTML:
        # Most files need none of these parsers.
        from devmem_stores.file import documents

        if suffix == ".pdf":
            return documents.pdf(data)
        return documents.docx(data) if suffix == ".docx" else documents.html(decode_text(data, encoding))
    return _READERS.get(suffix, plain)(decode_text(data, encoding))


def encoding_guess(name: str, data: bytes, encoding: str | None) -> str:
    """Return what is known of a text's encoding that was guessed; empty where it was not, and for other files."""
    return describe_guess(data) if encoding is None and _suffix(name) not in _BINARY else ""


def _suffix(name: str) -> str:
    return PurePath(name).suffix.lower()
