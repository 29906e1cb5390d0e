"""The official MCP memory server, spoken to over its standard input and output."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from protocol import main  # type: ignore[import-not-found]


class Server:
    """A server process and the requests to it."""

    def __init__(self, folder: str) -> None:
        """Start the server on the memory file of a folder."""
        environment = {**os.environ, "MEMORY_FILE_PATH": f"{folder}/store.jsonl"}
        script = os.environ["MCP_MEMORY_SERVER"]
        self._process = subprocess.Popen(
            ["node", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        self._number = 0
        client = {"name": "torture", "version": "1"}
        self.call("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self._send({"method": "notifications/initialized"})

    def tool(self, name: str, arguments: dict[str, Any]) -> Any:  # noqa: ANN401 - as the server answers
        """Call a tool; return its result."""
        return self.call("tools/call", {"name": name, "arguments": arguments})

    def call(self, method: str, params: dict[str, Any]) -> Any:  # noqa: ANN401
        """Send a request and return its result."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        while True:
            answer = json.loads(self._process.stdout.readline())
            if answer.get("id") == self._number:
                if "error" in answer or answer["result"].get("isError"):
                    raise RuntimeError(str(answer)[:200])
                return answer["result"]

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()


def opened(folder: str):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Open the server of a folder."""
    server = Server(folder)

    def add(name: str, text: str) -> None:
        server.tool("create_entities", {"entities": [{"name": name, "entityType": "note", "observations": [text]}]})

    def texts() -> list[str]:
        graph = json.loads(server.tool("read_graph", {})["content"][0]["text"])
        return [text for entity in graph["entities"] for text in entity["observations"]]

    return add, texts


main(opened)
