"""Check the wording of docstrings, comments and documentation against the list in CONTRIBUTING.md.

`python -m tools.wording [PATH ...]` prints each place as `file:line: what is wrong` and exits with 1 if there is any.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_OPENERS: Final = re.compile(r'^\s*r?"""(Give|Gives|Say|Says|Tell|Tells|What)\b')
"""First words of a docstring that have a plain form: Return, Report, Whether, or the noun itself."""
_PHRASES: Final = {
    re.compile(r"\bso (?:many|much)\b(?! that)", re.IGNORECASE): "name the number: 'Maximum number of', 'at most N'",
    re.compile(r"\bin peace\b", re.IGNORECASE): "the term is backoff",
    re.compile(r"\b(?:costs?|cost) (?:its|their) opinion\b", re.IGNORECASE): "say what is left out",
    re.compile(r"\bof one mind\b", re.IGNORECASE): "say 'agree' or 'consistent'",
    re.compile(r"\bsecond look\b", re.IGNORECASE): "the term is rerank",
    re.compile(r"\bspeaks? for (?:a|an|each|the|it)\b", re.IGNORECASE): "the terms are score contribution and snippet",
    re.compile(r"\banew\b", re.IGNORECASE): "say 'again' or 'rebuilt'",
}
_THINGS: Final = (
    "text|time|path|number|list|word|value|mapping|field|message|file|store|item|record|key|answer|version|component|"
    "regular|database|readable|finite|calendar|mail|fact"
)
_OF_THE_PRODUCT: Final = {
    re.compile(r"\bfor good\b", re.IGNORECASE): "say 'permanently'",
    re.compile(r"\bbound to nobody\b|\bbelongs to nobody\b", re.IGNORECASE): "the term is unscoped",
    re.compile(r"\bbe it (?:a|an|the|only)\b", re.IGNORECASE): "say 'whether ... or ...'",
    re.compile(r"\b(?:stays|left) as it is\b(?! (?:stored|written))", re.IGNORECASE): "say 'unchanged'",
    re.compile(r"\bcosts? nobody\b", re.IGNORECASE): "say what is not affected",
    re.compile(rf"(?<!there )(?<!where )\b(?:is|are) no (?:{_THINGS})s?\b(?!')", re.IGNORECASE): "say 'is not a ...'",
    re.compile(r"\b(?:is|are) still to be made\b", re.IGNORECASE): "say 'is pending'",
    re.compile(r"\bor that there (?:is|are) not\b", re.IGNORECASE): "say 'unknown'",
    re.compile(r"\bwhat is older is\b", re.IGNORECASE): "name the thing: 'older items are'",
}
"""Phrases that code and pages of the product do not use; tests may quote them."""
_PRODUCT: Final = ("devmem/", "stores/", "docs/", "README.md", "SECURITY.md")
_SELF: Final = frozenset({"tools/wording.py", "CONTRIBUTING.md"})


def problems_of(name: str, lines: Sequence[str]) -> Iterator[str]:
    """Return the problems of one file as `file:line: what is wrong`."""
    phrases = _PHRASES | (_OF_THE_PRODUCT if name.startswith(_PRODUCT) else {})
    python, any_phrase = name.endswith(".py"), re.compile("|".join(each.pattern for each in phrases), re.IGNORECASE)
    for number, line in enumerate(lines, 1):
        if python and (found := _OPENERS.match(line)):
            yield f"{name}:{number}: begins with {found[1]!r}: use Return, Report, Whether or a noun"
        if any_phrase.search(line) is None:
            continue
        for phrase, advice in phrases.items():
            if found := phrase.search(line):
                yield f"{name}:{number}: {found[0]!r}: {advice}"


def main(paths: Sequence[str]) -> int:
    """Check files and folders, by default all that git tracks; return the exit code."""
    listed = subprocess.run(["git", "ls-files", *paths], check=True, capture_output=True, text=True).stdout.split("\n")
    names = [name for name in listed if name.endswith((".py", ".md")) and name not in _SELF and name != "CHANGELOG.md"]
    found = [
        problem
        for name in names
        if Path(name).exists()
        for problem in problems_of(name, Path(name).read_text(encoding="utf-8").splitlines())
    ]
    print("\n".join(found) or f"{len(names)} files are well worded")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
