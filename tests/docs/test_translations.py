"""Chinese pages have the code and the sections of their originals, or their own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .blocks import FENCE, ROOT, fences_of
from .test_docs import OWN_CODE

DOCS = ROOT / "docs"
TRANSLATED = sorted({*(DOCS / "zh").glob("**/*.md")} - {*OWN_CODE})
_HEADING = re.compile(r"^#+ ", re.MULTILINE)


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_translated_page_has_the_code_and_the_sections_of_its_original(page: Path) -> None:
    original = DOCS / page.relative_to(DOCS / "zh")
    assert [(each.info, each.code) for each in fences_of(page)] == [
        (each.info, each.code) for each in fences_of(original)
    ]
    text, translated = (FENCE.sub("", each.read_text(encoding="utf-8")) for each in (original, page))
    assert len(_HEADING.findall(translated)) == len(_HEADING.findall(text))
