"""Pictures of trips for the documentation: Mermaid flow charts of the files that a trip passes, in call order.

Only what survives an ordinary change is drawn: the arrows with the most files behind them, without numbers of calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tools.trips.recorder import Call, Trip
from tools.trips.scenario import TITLES

_MOST_ARROWS: Final = 14
_MOST_NAMES: Final = 2
"""Maximum number of functions that an arrow names."""
_MARKER: Final = re.compile(r"<!-- /?trips:(\S+) -->")


class PageError(Exception):
    """Blocks of a page do not fit the trips.

    Attributes:
        unknown: names in markers that no trip has.
        unusable: trips that do not have exactly one block.
    """

    def __init__(self, unknown: Sequence[str], unusable: Sequence[str]) -> None:
        self.unknown, self.unusable = unknown, unusable
        problems = [f"no trip is named {name!r}" for name in unknown]
        if unusable:
            problems.append(
                f"one block `<!-- trips:NAME -->` ... `<!-- /trips:NAME -->` is needed for {', '.join(unusable)}"
            )
        super().__init__("; ".join(problems))


@dataclass(slots=True, eq=False)
class _Visit:
    """A file as it is reached from another one; all calls that take the same way are one visit."""

    file: str
    parent: _Visit | None = None
    visits: list[_Visit] = field(default_factory=list)
    """Files reached from here, in call order."""
    entries: dict[str, int] = field(default_factory=dict)
    """Functions by which the file is entered, with the number of calls behind each."""
    calls: int = 0

    def weight(self) -> tuple[int, int]:
        """Return the number of files here and behind, and of calls."""
        files, calls, rest = set[str](), 0, [self]
        while rest:
            visit = rest.pop()
            files.add(visit.file)
            calls += visit.calls
            rest += visit.visits
        return len(files), calls

    def visit(self, file: str) -> _Visit:
        """Return the visit of a file that is called from here, or continued by a callback.

        A callback into a file on the way belongs to that file's visit. Where the trip starts, the order of the caller's
        own calls is kept: only calls in a row are one visit.
        """
        if found := self._ancestor(file):
            return found
        known = self.visits if self.parent else self.visits[-1:]
        found = next((visit for visit in known if visit.file == file), None)
        if found is None:
            found = _Visit(file, self)
            self.visits.append(found)
        return found

    def _ancestor(self, file: str) -> _Visit | None:
        visit: _Visit | None = self
        while visit is not None and visit.file != file:
            visit = visit.parent
        return visit


def picture_of(trip: Trip) -> str:
    """Return a trip's Mermaid flow chart."""
    starts = [_Visit(TITLES[trip.name]), *(_Visit("another thread") for _ in trip.threads[1:])]
    for start, calls in zip(starts, trip.threads, strict=True):
        _add_calls(start, calls)
    drawn = _heaviest(starts)
    nodes: dict[str, str] = {}
    lines = [
        f'{_node(caller, nodes)} -->|"{number}: {_entries(visit)}"| {_node(visit, nodes)}'
        for number, (caller, visit) in enumerate(_arrows(starts, drawn), 1)
    ]
    return "\n".join(["```mermaid", "flowchart TD", *(f"    {line}" for line in lines), "```"])


def with_pictures(page: str, pictures: Mapping[str, str]) -> str:
    """Return a page with the picture of each trip in its block.

    Raises:
        PageError: a trip does not have exactly one block, or a block has no trip.
    """
    unknown = [name for name in dict.fromkeys(_MARKER.findall(page)) if name not in pictures]
    unusable = []
    for name, picture in pictures.items():
        start, end = f"<!-- trips:{name} -->", f"<!-- /trips:{name} -->"
        before, found_start, rest = page.partition(start)
        _, found_end, after = rest.partition(end)
        if not (found_start and found_end) or name in _MARKER.findall(before + after):
            unusable.append(name)
        else:
            page = f"{before}{start}\n{picture}\n{end}{after}"
    if unknown or unusable:
        raise PageError(unknown, unusable)
    return page


def outdated(page: str, pictures: Mapping[str, str]) -> list[str]:
    """Return the names of the trips whose picture in a page is not the given one.

    Raises:
        PageError: a trip does not have exactly one block, or a block has no trip.
    """
    with_pictures(page, pictures)
    return [name for name, picture in pictures.items() if f"<!-- trips:{name} -->\n{picture}\n<!-- /" not in page]


def _add_calls(start: _Visit, calls: Iterable[Call]) -> None:
    """Add a thread's calls to the visit where it starts."""
    stack = [(start, "")]
    for call in calls:
        del stack[call.depth :]
        caller, _ = stack[-1]
        visit = caller.visit(call.file)
        name = _short(call.function) if visit.parent is caller else ""
        if name:
            visit.entries.setdefault(name, 0)
        stack.append((visit, name))
        if not call.resumed:
            visit.calls += 1
            for entered, entry in stack:
                if entry:
                    entered.entries[entry] += 1


def _heaviest(starts: Sequence[_Visit]) -> set[_Visit]:
    """Return the visits to draw: each time the one with the most behind it that a drawn one leads to."""
    drawn = set[_Visit]()
    reachable = [visit for start in starts for visit in start.visits]
    while reachable and len(drawn) < _MOST_ARROWS:
        best = max(reachable, key=_Visit.weight)
        reachable.remove(best)
        reachable += best.visits
        drawn.add(best)
    return drawn


def _arrows(callers: Iterable[_Visit], drawn: set[_Visit]) -> Iterator[tuple[_Visit, _Visit]]:
    """Return callers and what they call, in call order."""
    for caller in callers:
        for visit in caller.visits:
            if visit in drawn:
                yield caller, visit
                yield from _arrows([visit], drawn)


def _node(visit: _Visit, nodes: dict[str, str]) -> str:
    """Return a node of the chart, with its label where it comes first."""
    if visit.file in nodes:
        return nodes[visit.file]
    name = nodes[visit.file] = f"n{len(nodes)}"
    if visit.parent is None:
        return f'{name}(["{visit.file}"])'
    module = visit.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f'{name}["{module.removeprefix("devmem.")}"]'


def _entries(visit: _Visit) -> str:
    """Return the functions by which a file is entered, those with the most behind them."""
    names = sorted(visit.entries, key=visit.entries.__getitem__, reverse=True)
    return ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")


def _short(function: str) -> str:
    """Return a function's name in a picture: a closure's is that of its function, a special method's its class's."""
    outer = function.partition(".<locals>")[0].removesuffix(".<lambda>")
    owner, _, last = outer.rpartition(".")
    return owner if owner and last.startswith("__") and last.endswith("__") else outer
