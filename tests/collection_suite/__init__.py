"""The contract of a collection, as tests."""

from __future__ import annotations

from tests.collection_suite.agreement import Agreeing
from tests.collection_suite.archive import ArchiveSuite
from tests.collection_suite.content import Content
from tests.collection_suite.conversations import Conversing
from tests.collection_suite.deletion import Forgetting
from tests.collection_suite.durability import Keeping, Sharing, Updating
from tests.collection_suite.embeddings import Embedding
from tests.collection_suite.erasure import ErasureOfHistories
from tests.collection_suite.fields import FieldsOfVersions, RecordingFields, SearchingFields
from tests.collection_suite.filters import Comparing, Filtering
from tests.collection_suite.fixtures import OpenCollection
from tests.collection_suite.listing import Listing
from tests.collection_suite.ranking import RankingEvidence
from tests.collection_suite.runs import FinishedRuns
from tests.collection_suite.search import Searching
from tests.collection_suite.selection import RankingChoice
from tests.collection_suite.tombstones import TombstoneSuite

__all__ = ["ArchiveSuite", "CollectionSuite", "OpenCollection", "TombstoneSuite", "VersionSuite"]


class CollectionSuite(
    Keeping,
    Forgetting,
    Searching,
    Conversing,
    RankingEvidence,
    RankingChoice,
    Embedding,
    Filtering,
    Comparing,
    Agreeing,
    Listing,
    Updating,
    Content,
    SearchingFields,
    RecordingFields,
    Sharing,
):
    """The contract of every collection; inherit from it in a test file and supply the fixture `open_collection`.

    The fixture returns an `OpenCollection`: a function that opens the same place each time it is called. Set
    `persists = False` where a place loses its items when it is closed, and `records_fields = False` for a collection
    that is no `SupportsFieldIndex`.

        class TestMyCollection(CollectionSuite):
            @pytest.fixture
            def open_collection(self, tmp_path: Path) -> OpenCollection:
                return partial(MyCollection, tmp_path / "items")
    """


class VersionSuite(FinishedRuns, ErasureOfHistories, FieldsOfVersions):
    """The contract of a collection that keeps versions and has runs, beside that of `CollectionSuite`.

    It is used in the same way.
    What it opens has to keep versions for at least an hour.
    """
