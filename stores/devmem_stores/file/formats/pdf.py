"""PDF: a section for each page."""

from __future__ import annotations

import io
import logging

from devmem import MissingExtraError
from devmem.text import UnreadableError
from devmem_stores.file.chunks import Section

try:
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError
except ImportError as error:
    raise MissingExtraError(feature="indexing PDF", package="pypdf", extra="files") from error

# Its messages about harmless irregularities are of no use to someone who runs a workflow.
logging.getLogger("pypdf").setLevel(logging.ERROR)


def sections(data: bytes) -> list[Section]:
    """Return the text of each page; the lines are those of the page's text.

    Raises:
        UnreadableError: the file is damaged, encrypted, or holds pictures of text only.
    """
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableError("is encrypted")
        texts = [page.extract_text() for page in reader.pages]
    except (PyPdfError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, UnreadableError):
            raise
        raise UnreadableError(f"is no readable PDF: {type(error).__name__}: {error}") from error
    found = [
        Section(text=text, numbers=range(1, text.count("\n") + 2), page=number)
        for number, text in enumerate(texts, start=1)
        if text.strip()
    ]
    if texts and not found:
        raise UnreadableError("holds no text; a scanned document needs its text recognised first")
    return found
