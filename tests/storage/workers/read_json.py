"""Reads a JSON file as DevAll does, again and again until stdin ends; says how often, and what it could not read."""

# ruff: noqa: T201 - its answers go to stdout
from __future__ import annotations

import json
import sys
import threading
from pathlib import Path


def main(path: str) -> None:
    over = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    reads = torn = most = 0
    print("ready", flush=True)
    while not over.is_set():
        try:
            items = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except ValueError:
            torn += 1
            continue
        reads += 1
        torn += len(items) < most
        most = max(most, len(items))
    print(json.dumps({"reads": reads, "torn": torn, "most": most}))


if __name__ == "__main__":
    main(sys.argv[1])
