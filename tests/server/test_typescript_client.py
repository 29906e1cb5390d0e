"""The TypeScript client: it is that of the interface, compiles strictly, and is run by Node against a real server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.typescript_client import FILE, client

from .conftest import Team

PAGE = Path(__file__).resolve().parents[2] / "docs/server.md"
PROGRAM = """
import { DevmemClient, DevmemError } from "./devmem.js";

const [base = "", token = ""] = process.argv.slice(2);
const memory = new DevmemClient(base, { token });
const { ids } = await memory.addMemories({ memories: [
  { text: "The launch is on June 2nd.", metadata: { topic: "launch", stars: 4 } },
  { text: "茶在四点。", metadata: { topic: "tea" } },
] });
const found = await memory.searchMemories({ query: "launch", where: { "metadata.stars": { ">=": 3 } } });
const listed = await memory.listMemories({ limit: 10, quarantined: null, where: { "metadata.topic": "tea" } });
const version = found.memories[0]!.version;
const changed = await memory.changeMemory(ids[0]!, { text: "The launch is on June 9th.", if_version: version });
const errors: unknown[] = [];
for (const call of [
  () => memory.changeMemory(ids[0]!, { text: "x", if_version: version }),
  () => memory.getMemory("../nothing?#"),
  () => memory.searchMemories({ query: "x", where: { "metadata.stars": { ">>": 3 } } }),
  () => new DevmemClient(base, { token: "devmem_forged" }).listMemories(),
  () => new DevmemClient("http://127.0.0.1:1").listMemories(),
]) {
  try { await call(); errors.push("nothing was thrown"); }
  catch (error) { if (!(error instanceof DevmemError)) throw error; errors.push(error.status); }
}
const forgotten = await memory.forgetMemory(ids[0]!);
const rest = await memory.listMemories();
console.log(JSON.stringify({ found: found.memories.length, tea: listed.memories.map((each) => each.text),
  changed: changed.text, errors, forgotten: forgotten.forgotten, total: rest.total }));
"""
CONFIG = {"target": "ES2022", "module": "NodeNext", "strict": True, "noUncheckedIndexedAccess": True, "types": ["node"]}


def test_the_client_is_that_of_the_interface() -> None:
    assert FILE.read_text(encoding="utf-8") == client(), "make generated"


@pytest.mark.kit
def test_node_runs_the_client(team: Team, tmp_path: Path) -> None:
    assert shutil.which("npm"), "this kit needs Node 18 or later with npm"
    shutil.copy(FILE, tmp_path)
    (tmp_path / "program.ts").write_text(PROGRAM, encoding="utf-8")
    shown = re.findall(r"^```typescript\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    page = shown[0].replace('"./devmem"', '"./devmem.js"').replace("http://127.0.0.1:8000", team.url)
    (tmp_path / "page.ts").write_text(page + "console.log(memories[0]!.text);\n", encoding="utf-8")
    (tmp_path / "package.json").write_text('{"type": "module", "private": true}')
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": CONFIG, "files": ["program.ts", "page.ts"]}))
    npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "typescript@5", "@types/node@20"]
    subprocess.run(npm, cwd=tmp_path, check=True)
    compiled = subprocess.run(["npx", "tsc"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stdout
    secret = team.header("ann")["authorization"].removeprefix("Bearer ")
    environment = {**os.environ, "DEVMEM_TOKEN": secret}
    shown_by_page = subprocess.run(["node", "page.js"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert shown_by_page.stdout == "The launch is on June 2nd.\n", shown_by_page.stderr
    secret = team.header("bob")["authorization"].removeprefix("Bearer ")
    run = subprocess.run(
        ["node", "program.js", team.url, secret], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == {
        "found": 1,
        "tea": ["茶在四点。"],
        "changed": "The launch is on June 9th.",
        "errors": [409, 404, 422, 401, 0],
        "forgotten": 1,
        "total": 1,
    }
