"""The contract of a collection, as tests."""

from __future__ import annotations

from devmem.testing.collection_suite.choosing import RankingChoice
from devmem.testing.collection_suite.content import Content
from devmem.testing.collection_suite.conversing import Conversing
from devmem.testing.collection_suite.embedding import Embedding
from devmem.testing.collection_suite.filtering import Filtering
from devmem.testing.collection_suite.forgetting import Forgetting
from devmem.testing.collection_suite.keeping import Keeping
from devmem.testing.collection_suite.opening import OpenCollection
from devmem.testing.collection_suite.ranking import RankingEvidence
from devmem.testing.collection_suite.searching import Searching
from devmem.testing.collection_suite.sharing import Sharing

__all__ = ["CollectionSuite", "OpenCollection"]


class CollectionSuite(
    Keeping, Forgetting, Searching, Conversing, RankingEvidence, RankingChoice, Embedding, Filtering, Content, Sharing
):
    """What every collection promises; inherit from it in a test file and supply the fixture `open_collection`.

    The fixture gives an `OpenCollection`: a function that opens the same place each time it is called. Say
    `persists = False` where a place forgets its items when it is closed.

        class TestMyCollection(CollectionSuite):
            @pytest.fixture
            def open_collection(self, tmp_path: Path) -> OpenCollection:
                return partial(MyCollection, tmp_path / "items")
    """
