"""YAML text to a document: events of PyYAML, composed by our own code with limits, repeated keys and merge keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from devmem.config.document import Document, Plain, checked_text
from devmem.config.findings import Rule
from devmem.errors import ConfigError, Finding

_PREFIX: Final = "tag:yaml.org,2002:"
_MERGE_TAG: Final = f"{_PREFIX}merge"
_KINDS: Final = {
    f"{_PREFIX}null": "null",
    f"{_PREFIX}bool": "flag",
    f"{_PREFIX}int": "number",
    f"{_PREFIX}float": "number",
    f"{_PREFIX}timestamp": "date",
}
# Long numbers take quadratic time to read, in base 60 even from few characters; no real one comes near this.
_NUMBER_CHARACTERS: Final = 300

_RESOLVER: Final = Resolver()
_CONSTRUCTOR: Final = SafeConstructor()


class ScalarError(ValueError):
    """A scalar that is not what it claims to be; says so without repeating the value, which may be a secret."""


def is_merge_key(event: yaml.ScalarEvent) -> bool:
    """Whether a key is the `<<` that takes over another mapping's entries."""
    return event.value == "<<" and (event.tag == _MERGE_TAG or (not event.tag and event.implicit[0]))


def scalar_value(event: yaml.ScalarEvent) -> Plain:
    """Return the scalar's value: text, number, flag, date or None.

    Raises:
        ScalarError: the value does not fit its tag, is far too long a number, or holds characters that no text may.
    """
    text = _checked_text(event.value)
    tag = event.tag if event.tag and event.tag != "!" else _implicit_tag(text, event)
    if tag not in _KINDS:
        if event.tag and event.tag not in ("!", f"{_PREFIX}str"):
            raise ScalarError("this tag is not supported: only YAML's own tags for text, numbers, flags and dates are")
        return text
    if _KINDS[tag] == "number" and len(text) > _NUMBER_CHARACTERS:
        raise ScalarError(f"a number of {len(text)} characters is too long; quote it if it is meant as text")
    node = ScalarNode(tag, text)
    try:
        return SafeConstructor.yaml_constructors[tag](_CONSTRUCTOR, node)
    except (ValueError, LookupError, AttributeError, TypeError, OverflowError, yaml.YAMLError):
        # The original error repeats the value, so it is not chained.
        raise ScalarError(f"this is not a valid {_KINDS[tag]}; quote it if it is meant as text") from None


def _implicit_tag(text: str, event: yaml.ScalarEvent) -> str:
    return str(_RESOLVER.resolve(ScalarNode, text, event.implicit))  # type: ignore[no-untyped-call]  # untyped stub


def _checked_text(text: str) -> str:
    if "\0" in text:
        raise ScalarError("a text cannot hold the character NUL")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ScalarError("a text cannot hold half of a surrogate pair")
    return text


MAX_DEPTH: Final = 64
"""How deep lists and mappings may nest, aliases followed."""
_TOO_DEEP: Final = f"lists and mappings nest deeper than {MAX_DEPTH} levels"
MAX_VALUES: Final = 50_000
"""How many values a document may have, aliases and merge keys followed."""
_MAX_DIRECTIVES: Final = 100
_MAX_REPEATED_KEYS: Final = 100

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DIRECTIVE: Final = re.compile(r"^%", re.MULTILINE)
_COLLECTION_TAGS: Final = (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_COMPOSE_SHOWN_KEY_CHARACTERS: Final = 60


@dataclass(slots=True, kw_only=True)
class _Piece:
    """A finished value: how many values it stands for and how deep it goes."""

    value: Any
    size: int = 1
    height: int = 0
    is_merge_key: bool = False
    is_blank: bool = False
    """Whether nothing was written in its place."""


@dataclass(slots=True, kw_only=True)
class _Open:
    """A list or mapping that is being read."""

    is_mapping: bool
    line: int
    anchor: str | None
    elements: list[Any] = field(default_factory=list)
    entries: dict[Hashable, Any] = field(default_factory=dict)
    lines: dict[Hashable, int] = field(default_factory=dict)
    blank: set[Hashable] = field(default_factory=set)
    merged: list[Any] = field(default_factory=list)
    key: _Piece | None = None
    key_line: int = 0
    size: int = 1
    height: int = 1


def compose(text: str, *, origin: str = "") -> Document:
    """Read one YAML document whose root is a mapping.

    Raises:
        ConfigError: the text is not such a document, repeats a key, or exceeds a limit.
    """
    text = checked_text(text, origin)
    return _Composer(text, origin).document()


class _Composer:
    def __init__(self, text: str, origin: str) -> None:
        self._text, self._origin = text, origin
        self._open: list[_Open] = []
        self._anchors: dict[str, _Piece | None] = {}
        self._lines: dict[int, Mapping[Hashable, int] | Sequence[int]] = {}
        self._blank: dict[int, Collection[Hashable]] = {}
        self._repeated: list[Finding] = []
        self._root: _Piece | None = None
        self._documents = 0

    def document(self) -> Document:
        if sum(1 for _ in _DIRECTIVE.finditer(self._text)) > _MAX_DIRECTIVES:
            raise self._refusal(1, f"more than {_MAX_DIRECTIVES} lines begin with %")
        for event in self._events():
            self._take(event)
        if self._root is None or (self._root.value is None and not self._lines):
            raise self._refusal(None, "the document is empty; a workflow is a mapping with `memory:` and `nodes:`")
        if self._repeated:
            raise ConfigError(self._repeated)
        if not isinstance(self._root.value, dict):
            raise self._refusal(
                1, "a workflow is a mapping with `memory:` and `nodes:`, this document is not a mapping"
            )
        return Document(data=self._root.value, origin=self._origin, lines=self._lines, blank=self._blank)

    def _events(self) -> Iterator[yaml.Event]:
        try:
            yield from yaml.parse(self._text, Loader=_LOADER)
        except yaml.YAMLError as error:
            # Not chained: the parser's error may quote the text, and with it a secret.
            line, message = _syntax_message(error, self._text)
        else:
            return
        raise self._refusal(line, message)

    def _take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise self._refusal(line, "a second document begins here; a workflow file holds one")
        elif isinstance(event, yaml.ScalarEvent):
            self._take_scalar(event, line)
        elif isinstance(event, yaml.AliasEvent):
            self._place(self._aliased(event, line), line)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._begin(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._finish(self._open.pop())

    def _take_scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        try:
            value = scalar_value(event)
            piece = _Piece(value=value, is_merge_key=is_merge_key(event), is_blank=value is None and not event.value)
        except ScalarError as error:
            raise self._refusal(line, str(error)) from None
        if event.anchor:
            self._anchors[event.anchor] = piece
        self._place(piece, line)

    def _aliased(self, event: yaml.AliasEvent, line: int) -> _Piece:
        if event.anchor not in self._anchors:
            raise self._refusal(line, "this alias names no anchor above it; quote the value if the `*` is part of it")
        piece = self._anchors[event.anchor]
        if piece is None:
            raise self._refusal(line, f"the alias {event.anchor[:_COMPOSE_SHOWN_KEY_CHARACTERS]!r} contains itself")
        return piece

    def _begin(self, event: yaml.CollectionStartEvent, line: int) -> None:
        if event.tag not in _COLLECTION_TAGS:
            raise self._refusal(line, "this tag is not supported: only YAML's own lists and mappings are")
        if len(self._open) >= MAX_DEPTH:
            raise self._refusal(line, _TOO_DEEP)
        parent = self._open[-1] if self._open else None
        if parent and parent.is_mapping and parent.key is None:
            raise self._refusal(line, "a list or mapping cannot be a key; quote a text that begins with [ or {")
        if event.anchor:
            self._anchors[event.anchor] = None
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        self._open.append(_Open(is_mapping=is_mapping, line=line, anchor=event.anchor))

    def _finish(self, done: _Open) -> None:
        value: Any = done.elements
        lines: Mapping[Hashable, int] | Sequence[int] = list(done.lines.values())
        if done.is_mapping:
            value, lines = self._with_merged(done)
        self._lines[id(value)] = lines
        if done.blank:
            self._blank[id(value)] = done.blank
        piece = _Piece(value=value, size=done.size, height=done.height)
        if done.anchor:
            self._anchors[done.anchor] = piece
        self._place(piece, done.line)

    def _with_merged(self, done: _Open) -> tuple[dict[Hashable, Any], dict[Hashable, int]]:
        """Put the merged entries first, so that a mapping's own entries win."""
        entries: dict[Hashable, Any] = {}
        lines: dict[Hashable, int] = {}
        for mapping in done.merged:
            entries.update(mapping)
            lines.update(self._lines[id(mapping)])  # type: ignore[arg-type]  # a mapping's lines are a mapping
        return entries | done.entries, lines | done.lines

    def _place(self, piece: _Piece, line: int) -> None:
        """Put a finished value where it belongs: into the list or mapping that is open, or at the root."""
        if not self._open:
            self._root = piece
            return
        parent = self._open[-1]
        self._grow(parent, piece, line)
        if not parent.is_mapping:
            parent.lines[len(parent.elements)] = line
            parent.elements.append(piece.value)
        elif parent.key is None:
            self._take_key(parent, piece, line)
        else:
            self._take_entry(parent, piece, line)

    def _grow(self, parent: _Open, piece: _Piece, line: int) -> None:
        parent.size += piece.size
        parent.height = max(parent.height, piece.height + 1)
        if parent.size > MAX_VALUES:
            raise self._refusal(line, f"the document has more than {MAX_VALUES:,} values, aliases followed")
        if len(self._open) + piece.height > MAX_DEPTH:
            raise self._refusal(line, f"{_TOO_DEEP}, aliases followed")

    def _take_key(self, parent: _Open, piece: _Piece, line: int) -> None:
        if isinstance(piece.value, (dict, list)):
            raise self._refusal(line, "a list or mapping cannot be a key")
        parent.key, parent.key_line = piece, line

    def _take_entry(self, parent: _Open, piece: _Piece, line: int) -> None:
        key = parent.key
        parent.key = None
        if key is None or key.is_merge_key:
            parent.merged.extend(self._mappings_to_merge(piece.value, line))
            return
        if key.value in parent.entries:
            self._report_repeated(key.value, parent)
        parent.entries[key.value] = piece.value
        if piece.is_blank:
            parent.blank.add(key.value)
        parent.lines[key.value] = parent.key_line

    def _mappings_to_merge(self, value: object, line: int) -> list[Any]:
        """Return the mappings after `<<`, the weakest first."""
        mappings = value[::-1] if isinstance(value, list) else [value]
        if not all(isinstance(mapping, dict) for mapping in mappings):
            raise self._refusal(line, "`<<` takes a mapping or a list of mappings")
        return mappings

    def _report_repeated(self, key: object, parent: _Open) -> None:
        if len(self._repeated) < _MAX_REPEATED_KEYS:
            shown = str(key)[:_COMPOSE_SHOWN_KEY_CHARACTERS]
            message = f"the key {shown!r} stands here and on line {parent.lines[key]}; keep one of them"
            self._repeated.append(
                Finding(message=message, rule=Rule.DUPLICATE_NAME, file=self._origin, line=parent.key_line)
            )

    def _refusal(self, line: int | None, message: str) -> ConfigError:
        return ConfigError(
            [*self._repeated, Finding(message=message, rule=Rule.INVALID_FILE, file=self._origin, line=line)]
        )


def _syntax_message(error: yaml.YAMLError, text: str) -> tuple[int | None, str]:
    mark = getattr(error, "problem_mark", None)
    if not isinstance(error, yaml.MarkedYAMLError) or mark is None:  # pragma: no cover - the text was checked
        return None, "this is not valid YAML"
    if "nesting depth" in (error.problem or ""):
        # libyaml from 0.2.6 on reads ahead, and has a limit of its own.
        return mark.line + 1, _TOO_DEEP
    lines = text.split("\n")
    row = lines[mark.line] if mark.line < len(lines) else ""
    character = row[mark.column : mark.column + 1]
    if character == "\t" or row[: len(row) - len(row.lstrip())].count("\t"):
        return mark.line + 1, "a tab stands where YAML wants spaces; indent with spaces"
    if character and character in "@`%" and mark.column > 0:
        return mark.line + 1, f"a text cannot begin with {character!r} unless it is quoted"
    if "${" in row and character != "\n" and "flow" in str(error.context):
        return mark.line + 1, 'this is not valid YAML; inside { } and [ ] a placeholder must be quoted: "${NAME}"'
    begun = f", {error.context} on line {error.context_mark.line + 1}" if error.context and error.context_mark else ""
    return mark.line + 1, f"this is not valid YAML: {error.problem}{begun}"
