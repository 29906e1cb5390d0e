"""YAML text to a document: PyYAML's events, read with the line of each value, within limits.

The events are used since `yaml.compose` recurses without a bound, forgets repeated keys, and copies what is merged.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from devmem.config.document import Plain, YamlDocument, checked_text
from devmem.config.findings import Rule
from devmem.errors import ConfigError, Finding

MAX_DEPTH: Final = 64
"""How deep lists and mappings may nest, aliases followed."""
MAX_VALUES: Final = 50_000
"""How many values a document may have, aliases and merge keys followed."""
_TOO_DEEP: Final = f"lists and mappings nest deeper than {MAX_DEPTH} levels"
_MAX_REPEATED_KEYS: Final = 100
_SHOWN_CHARACTERS: Final = 60
_NUMBER_CHARACTERS: Final = 300
"""Longest number: in base 60 a number takes quadratic time to read."""

_PREFIX: Final = "tag:yaml.org,2002:"
_KINDS: Final = {
    f"{_PREFIX}null": "null",
    f"{_PREFIX}bool": "flag",
    f"{_PREFIX}int": "number",
    f"{_PREFIX}float": "number",
    f"{_PREFIX}timestamp": "date",
}
_TEXT_TAGS: Final = (None, "!", f"{_PREFIX}str")
_COLLECTION_TAGS: Final = (None, "!", f"{_PREFIX}map", f"{_PREFIX}seq")
_RESOLVER: Final = Resolver()
_CONSTRUCTOR: Final = SafeConstructor()
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True, kw_only=True)
class _Value:
    """A value that was read."""

    value: Plain
    size: int = 1
    """Number of values that it stands for."""
    height: int = 0
    """Levels of lists and mappings in it."""


def compose(text: str, *, origin: str = "") -> YamlDocument:
    """Read one YAML document whose root is a mapping.

    Raises:
        ConfigError: the text is not such a document, repeats a key, or exceeds a limit.
    """
    return _Composer(checked_text(text, origin), origin).document()


class _Composer:
    def __init__(self, text: str, origin: str) -> None:
        self._origin = origin
        self._events = self._parsed(text)
        self._anchors: dict[str, _Value | None] = {}
        """Value that each anchor names; None while it is being read."""
        self._lines: dict[int, Mapping[Hashable, int] | Sequence[int]] = {}
        self._blank: set[tuple[int, Hashable]] = set()
        self._repeated: list[Finding] = []

    def document(self) -> YamlDocument:
        root: _Value | None = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    self._refuse(_line(event), "a second document begins here; a workflow file holds one")
                root = self._read(next(self._events), 0)
        if root is None or (root.value is None and not self._lines):
            self._refuse(None, "the document is empty; a workflow is a mapping with `memory:` and `nodes:`")
        if self._repeated:
            raise ConfigError(self._repeated)
        if not isinstance(root.value, dict):
            self._refuse(1, "a workflow is a mapping with `memory:` and `nodes:`, this document is not a mapping")
        return YamlDocument(data=root.value, origin=self._origin, lines=self._lines, blank=self._blank)

    def _parsed(self, text: str) -> Iterator[yaml.Event]:
        try:
            yield from yaml.parse(text, Loader=_LOADER)
        except yaml.YAMLError as error:
            # Not chained: the parser's error may quote the text, and with it a secret.
            line, message = _syntax_message(error, text)
        else:
            return
        self._refuse(line, message)

    def _read(self, event: yaml.Event, depth: int) -> _Value:
        """Return the value that an event begins."""
        line = _line(event)
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(event, line, depth)
        message, value = "", _Value(value=None)
        if isinstance(event, yaml.ScalarEvent):
            try:
                value = _Value(value=_scalar(event))
            except ValueError as error:
                message = str(error)
        elif not isinstance(event, yaml.CollectionStartEvent) or event.tag not in _COLLECTION_TAGS:
            message = "this tag is not supported: only YAML's own lists and mappings are"
        elif depth >= MAX_DEPTH:
            message = _TOO_DEEP
        else:
            if event.anchor:
                self._anchors[event.anchor] = None
            read = self._mapping if isinstance(event, yaml.MappingStartEvent) else self._list
            value = read(depth + 1)
        if message:
            self._refuse(line, message)
        if isinstance(event, yaml.NodeEvent) and event.anchor:
            self._anchors[event.anchor] = value
        return value

    def _aliased(self, event: yaml.AliasEvent, line: int, depth: int) -> _Value:
        if event.anchor not in self._anchors:
            self._refuse(line, "this alias names no anchor above it; quote the value if the `*` is part of it")
        value = self._anchors[event.anchor]
        if value is None:
            self._refuse(line, f"the alias {event.anchor[:_SHOWN_CHARACTERS]!r} contains itself")
        if depth + value.height > MAX_DEPTH:
            self._refuse(line, f"{_TOO_DEEP}, aliases followed")
        return value

    def _list(self, depth: int) -> _Value:
        elements: list[Plain] = []
        lines: list[int] = []
        done = _Value(value=elements, height=1)
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            lines.append(_line(event))
            self._add(done, inner := self._read(event, depth), lines[-1])
            elements.append(inner.value)
        self._lines[id(elements)] = lines
        return done

    def _mapping(self, depth: int) -> _Value:
        entries: dict[Hashable, Plain] = {}
        lines: dict[Hashable, int] = {}
        merged: list[dict[Hashable, Plain]] = []
        done = _Value(value=entries, height=1)
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = _line(event)
            if isinstance(event, yaml.CollectionStartEvent):
                self._refuse(line, "a list or mapping cannot be a key; quote a text that begins with [ or {")
            key: Hashable = self._read(event, depth).value
            if isinstance(key, (dict, list)):
                self._refuse(line, "a list or mapping cannot be a key")
            begin = next(self._events)
            self._add(done, inner := self._read(begin, depth), line)
            tag = event.tag if isinstance(event, yaml.ScalarEvent) and event.value == "<<" else "other"
            # Quoted, it is a key like any other.
            if tag == f"{_PREFIX}merge" or (isinstance(event, yaml.ScalarEvent) and not tag and event.implicit[0]):
                # The weakest first.
                mappings: list[Any] = inner.value[::-1] if isinstance(inner.value, list) else [inner.value]
                if not all(isinstance(mapping, dict) for mapping in mappings):
                    self._refuse(line, "`<<` takes a mapping or a list of mappings")
                merged += mappings
                continue
            if key in entries and len(self._repeated) < _MAX_REPEATED_KEYS:
                message = f"the key {str(key)[:_SHOWN_CHARACTERS]!r} stands here and on line {lines[key]}; keep one"
                finding = Finding(message=f"{message} of them", rule=Rule.DUPLICATE_NAME, file=self._origin, line=line)
                self._repeated.append(finding)
            entries[key], lines[key] = inner.value, line
            if inner.value is None and isinstance(begin, yaml.ScalarEvent) and not begin.value:
                self._blank.add((id(entries), key))
        if merged:
            # The merged entries come first, so that the mapping's own win; of two merge keys the later one decides.
            own, own_lines = dict(entries), dict(lines)
            entries.clear()
            for mapping in merged:
                entries.update(mapping)
                lines.update(self._lines[id(mapping)])  # type: ignore[arg-type]  # a mapping's lines are a mapping
            entries.update(own)
            lines.update(own_lines)
        self._lines[id(entries)] = lines
        return done

    def _add(self, container: _Value, inner: _Value, line: int) -> None:
        container.size += inner.size
        container.height = max(container.height, inner.height + 1)
        if container.size > MAX_VALUES:
            self._refuse(line, f"the document has more than {MAX_VALUES:,} values, aliases followed")

    def _refuse(self, line: int | None, message: str) -> NoReturn:
        raise ConfigError(
            [*self._repeated, Finding(message=message, rule=Rule.INVALID_FILE, file=self._origin, line=line)]
        )


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _scalar(event: yaml.ScalarEvent) -> Plain:
    """Return a scalar's value: text, number, flag, date or None.

    Raises:
        ValueError: it does not fit its tag, or holds characters that no text may; the value, which may be a secret, is
            not repeated.
    """
    text = event.value
    if "\0" in text:
        raise ValueError("a text cannot hold the character NUL")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("a text cannot hold half of a surrogate pair")
    tag = event.tag if event.tag and event.tag != "!" else _RESOLVER.resolve(ScalarNode, text, event.implicit)  # type: ignore[no-untyped-call]
    if tag not in _KINDS:
        if event.tag not in _TEXT_TAGS:
            raise ValueError("this tag is not supported: only YAML's own tags for text, numbers, flags and dates are")
        return text
    wrong = f"this is not a valid {_KINDS[tag]}; quote it if it is meant as text"
    if _KINDS[tag] == "number" and len(text) > _NUMBER_CHARACTERS:
        raise ValueError(wrong)
    try:
        return SafeConstructor.yaml_constructors[tag](_CONSTRUCTOR, ScalarNode(tag, text))
    except (ValueError, LookupError, AttributeError, TypeError, OverflowError, yaml.YAMLError):
        # Not chained: the original error repeats the value.
        raise ValueError(wrong) from None


_NO_SPACE: Final = re.compile(r"^\s*(?:- )?([\w-]+)(?:\uff1a|:(?=[^\s:/]))")
"""A key whose colon is full-width, or lacks the space behind it."""


def _syntax_message(error: yaml.YAMLError, text: str) -> tuple[int | None, str]:
    """Return the line and the message of a syntax error, with the usual mistake that it looks like."""
    mark = getattr(error, "problem_mark", None)
    if not isinstance(error, yaml.MarkedYAMLError) or mark is None:  # pragma: no cover - the text was checked
        return None, "this is not valid YAML"
    if "nesting depth" in (error.problem or ""):
        # libyaml from 0.2.6 on reads ahead, and has a limit of its own.
        return mark.line + 1, _TOO_DEEP
    lines = text.split("\n")
    row = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in (row[mark.column : mark.column + 1], *row[: len(row) - len(row.lstrip())]):
        return mark.line + 1, "a tab stands where YAML wants spaces; indent with spaces"
    if (character := row[mark.column : mark.column + 1]) in ("@", "`", "%") and mark.column > 0:
        return mark.line + 1, f"a text cannot begin with {character!r} unless it is quoted"
    if "${" in row and "flow" in str(error.context):
        return mark.line + 1, 'this is not valid YAML; inside { } and [ ] a placeholder must be quoted: "${NAME}"'
    begun = error.context_mark.line if error.context and error.context_mark else mark.line
    for number in (begun, mark.line, mark.line - 1):
        if 0 <= number < len(lines) and (key := _NO_SPACE.match(lines[number])):
            hint = f"write the key as `{key[1][:_SHOWN_CHARACTERS]}: `, with a space"
            return number + 1, f"this is not valid YAML: {hint}"
    context = f", {error.context} on line {begun + 1}" if error.context and error.context_mark else ""
    return mark.line + 1, f"this is not valid YAML: {error.problem}{context}"
