"""LangMem's tools over the store; `make test-hosts HOSTS=langgraph` installs LangMem beside LangGraph."""

from __future__ import annotations

import json

from langmem import create_manage_memory_tool, create_search_memory_tool

import devmem
from devmem.adapters.langgraph import DevmemStore

NOTES = ("memories",)


def test_an_agents_tools_write_change_find_and_delete(memory: devmem.Memory) -> None:
    store = DevmemStore(memory)
    manage = create_manage_memory_tool(namespace=NOTES, store=store)
    search = create_search_memory_tool(namespace=NOTES, store=store)

    def found(query: str) -> list[str]:
        return [each["value"]["content"] for each in json.loads(search.invoke({"query": query}))]

    manage.invoke({"content": "She takes her tea with milk.", "action": "create"})
    manage.invoke({"content": "She prefers the night train.", "action": "create"})
    (tea,) = (item for item in store.search(NOTES) if "tea" in item.value["content"])
    manage.invoke({"content": "She takes her tea without milk.", "action": "update", "id": tea.key})
    assert found("milk in the tea?")[0] == "She takes her tea without milk."
    manage.invoke({"action": "delete", "id": tea.key})
    assert found("milk in the tea?") == ["She prefers the night train."]
