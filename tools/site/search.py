"""Whether readers find answers: the order of results of the site's search, and clicks from the start page.

`SearchIndex` ranks as Sphinx's `searchtools.js` does with our `scorer.js`, on the index that Sphinx wrote: titles that
contain the query, names of objects, and pages that have every word of it, each page by its best word.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import snowballstemmer
import yaml

_SPLIT: Final = re.compile(r"\W+")
_TITLE, _PARTIAL_TITLE, _TERM, _PARTIAL_TERM = 15, 7, 5, 2
_OBJECT_NAME, _PART_OF_OBJECT_NAME = 11, 6
_LATER_BY, _HEADING_BONUS = 20, 10
_OBJECT_PRIORITY: Final = {0: 15, 1: 5, 2: -5}
QUESTIONS: Final = Path(__file__).parent / "questions.yaml"
"""The questions that readers have."""
RESULTS: Final = 3
"""Number of results that a reader looks at."""
CLICKS: Final = 2
"""Number of clicks that a reader makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question that users have, with where it is answered."""

    asks: str
    search: str
    """Words that a reader would type into the site's search."""
    pages: tuple[str, ...]
    """Names of the pages that answer it, without suffix."""
    says: str
    """Text that stands on each of these pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How a reader gets to an answer."""

    question: Question
    clicks: int | None
    """Least number of clicks from the start page to a page that answers; None if there is no way."""
    rank: int | None
    """Place of the first page that answers among the results of the search, from 1; None if there is none."""

    @property
    def answered(self) -> bool:
        """Whether the answer is near enough, by clicks or by the search."""
        by_clicks = self.clicks is not None and self.clicks <= CLICKS
        return by_clicks or (self.rank is not None and self.rank <= RESULTS)


def load_questions(file: Path) -> list[Question]:
    """Read the questions from a YAML list with `asks`, `search`, `pages` and `says`."""
    entries = yaml.safe_load(file.read_text(encoding="utf-8"))
    return [Question(**{**entry, "pages": tuple(entry["pages"])}) for entry in entries]


def findings_of(site: Path, questions: Iterable[Question]) -> list[Finding]:
    """Return how near the answer to each question is in a built site."""
    index = SearchIndex.load(site)
    distances = clicks_from_start(site)
    found = []
    for question in questions:
        results = index.search(question.search)
        ranks = [place for place, page in enumerate(results, 1) if page in question.pages]
        clicks = [distances[page] for page in question.pages if page in distances]
        found.append(Finding(question=question, clicks=min(clicks, default=None), rank=min(ranks, default=None)))
    return found


def clicks_from_start(site: Path) -> dict[str, int]:
    """Return each page's least number of clicks from the start page, by links in the texts of pages alone."""
    distances = {"index": 0}
    waiting = deque(distances)
    while waiting:
        page = waiting.popleft()
        for target in _links(site, page):
            if target not in distances:
                distances[target] = distances[page] + 1
                waiting.append(target)
    return distances


def text_of(site: Path, page: str) -> str:
    """Return the text of a page, without the navigation around it."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", _article(site, page))).split())


def _article(site: Path, page: str) -> str:
    source = (site / f"{page}.html").read_text(encoding="utf-8")
    return source.partition("<article")[2].partition("</article>")[0]


def _links(site: Path, page: str) -> Iterator[str]:
    for link in re.findall(r'href="([^"#:]+)\.html(?:#[^"]*)?"', _article(site, page)):
        yield posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


class SearchIndex:
    """The index of a built site, searched as the script of the site searches it."""

    def __init__(self, data: Mapping[str, Any], stopwords: frozenset[str], later: tuple[str, ...]) -> None:
        self._data = data
        self._stopwords = stopwords
        self._later = later
        self._stemmer = snowballstemmer.stemmer("english")

    @classmethod
    def load(cls, site: Path) -> SearchIndex:
        """Read the index of a built site, and the stop words and the pages to rank later that its scripts have."""
        index = (site / "searchindex.js").read_text(encoding="utf-8")
        script = site / "_static" / "language_data.js"
        text = script.read_text(encoding="utf-8")
        stopwords = re.search(r"stopwords = new Set\((\[.*?\])\)", text, re.DOTALL)
        later = re.search(r"laterPages = (\[.*?\]);", text, re.DOTALL)
        if stopwords is None or later is None:
            raise ValueError(f"{script} lacks the stop words of Sphinx 9, or the pages of our scorer.js")
        data = json.loads(index.removeprefix("Search.setIndex(").rstrip().removesuffix(")"))
        return cls(data, frozenset(json.loads(stopwords[1])), tuple(json.loads(later[1])))

    def search(self, query: str) -> list[str]:
        """Return the page of each result, best first; a page is several results if several of its headings are."""
        texts = [*self._by_title(query), *self._by_terms(query)]
        results = [*((self._ranked(score, page), shown, page) for score, shown, page in texts), *self._by_object(query)]
        ordered = sorted(results, key=lambda result: (-result[0], result[1].lower()))
        names = self._data["docnames"]
        return [names[page] for page, _ in dict.fromkeys((page, shown) for _, shown, page in ordered)]

    def _ranked(self, score: int, page: int) -> int:
        return score - _LATER_BY if self._data["docnames"][page].startswith(self._later) else score

    def _by_title(self, query: str) -> Iterator[tuple[int, str, int]]:
        asked = query.lower().strip()
        titles = self._data["titles"]
        for title, places in self._data["alltitles"].items():
            if asked in title.lower().strip() and len(asked) >= len(title) / 2:
                for page, _ in places:
                    score = int(_TITLE * len(asked) / len(title) + 0.5) + _HEADING_BONUS
                    own = titles[page] == title
                    yield score + own, title if own else f"{titles[page]} > {title}", page

    def _by_object(self, query: str) -> Iterator[tuple[int, str, int]]:
        words = {word for word in _SPLIT.split(query.lower()) if word}
        for prefix, entries in self._data["objects"].items():
            for page, kind, priority, _, name in entries:
                full = f"{prefix}.{name}".lower().removeprefix(".")
                around = f"{prefix} {name} {self._data['objnames'][str(kind)][2]} {self._data['titles'][page]}".lower()
                for word in words:
                    if word in full and all(other in around for other in words - {word}):
                        yield _object_score(word, full) + _OBJECT_PRIORITY.get(priority, 0), full, page

    def _by_terms(self, query: str) -> Iterator[tuple[int, str, int]]:
        words = {
            self._stemmer.stemWord(word.lower())
            for word in _SPLIT.split(query)
            if word and word.lower() not in self._stopwords and not word.isdigit()
        }
        scores: dict[int, dict[str, int]] = {}
        for word in words:
            for score, pages in self._postings(word):
                for page in pages:
                    scores.setdefault(page, {})[word] = score
        enough = {len(words), sum(len(word) > 2 for word in words)}
        for page, found in scores.items():
            if len(found) in enough:
                yield max(found.values()), self._data["titles"][page], page

    def _postings(self, word: str) -> Iterator[tuple[int, list[int]]]:
        """Return pages with the score of a word in them; a later score of a page replaces an earlier one."""
        terms, title_terms = self._data["terms"], self._data["titleterms"]
        for postings, exact in ((terms, _TERM), (title_terms, _TITLE)):
            if word in postings:
                yield exact, _listed(postings[word])
        for postings, partial in ((terms, _PARTIAL_TERM), (title_terms, _PARTIAL_TITLE)):
            if len(word) > 2 and word not in postings:
                yield from ((partial, _listed(pages)) for term, pages in postings.items() if word in term)


def _object_score(word: str, full: str) -> int:
    last = full.rpartition(".")[2]
    if word in (full, last):
        return _OBJECT_NAME
    return _PART_OF_OBJECT_NAME if word in last else 0


def _listed(pages: int | list[int]) -> list[int]:
    return [pages] if isinstance(pages, int) else pages
