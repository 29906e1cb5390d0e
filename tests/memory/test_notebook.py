"""Records, hits, versions and receipts are short in a shell and tables in a notebook."""

from __future__ import annotations

import pytest

import devmem


def test_a_repr_is_short(memory: devmem.Memory) -> None:
    item_id = memory.add("Ann moved the launch to June 2nd, " * 50, user="ann", metadata={"blob": "x" * 5000})
    (hit,) = memory.search("launch", user="ann")
    (version,) = memory.history(item_id)
    (change,) = memory.diff(0.0)
    for shown in (memory.get(item_id), hit, version, change):
        text = repr(shown)
        assert len(text) < 250
        assert "Ann moved the launch" in text
        assert "'ann'" in text
    assert repr(hit).startswith(f"<Hit {hit.score:.3f} ")


def test_tables_escape_what_was_stored(memory: devmem.Memory) -> None:
    item_id = memory.add("<script>alert('launch')</script>", metadata={"<b>": "</td>"})
    tables = [
        memory.search("launch")._repr_html_(),
        memory.list()._repr_html_(),
        memory.history(item_id)._repr_html_(),
        memory._repr_html_(),
    ]
    for table in tables:
        assert table.startswith("<table>")
        assert "&lt;script&gt;" in table
        assert "<script>" not in table
        assert "<b>" not in table


def test_a_search_without_a_user_says_what_it_leaves_out(
    memory: devmem.Memory, caplog: pytest.LogCaptureFixture
) -> None:
    memory.add(["The code of Ann is 1.", "Ann likes tea."], user="ann", metadata={"topic": "ann"})
    memory.add("The code of Bob is 2.", user="bob")
    memory.add("The code is 3.")
    assert memory.search("code").left_out == 3
    assert memory.search("code", metadata={"topic": "ann"}).left_out == 2
    assert [record.message.count("3 item(s) that belong to users") for record in caplog.records] == [1]
    for hits in (memory.search("code", user="ann"), memory.search("code", user=devmem.ANY)):
        assert hits.left_out == 0
    assert memory.scoped(user="ann").search("code").left_out == memory.scoped().search("code").left_out == 0
