"""Importing mem0: its telemetry, its folder, its version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devmem_stores.mem0 import in_process

from .conftest import mem0_error

CODE = """
import socket, sys
from pathlib import Path
from devmem_stores.mem0.in_process import load_mem0

tried = []
def refuse(self, address):
    tried.append(address)
    raise ConnectionRefusedError
socket.socket.connect = refuse
socket.getaddrinfo = lambda host, *rest, **more: refuse(None, host)
before = (Path(sys.argv[1]) / "early").exists() and __import__("mem0")
load_mem0(telemetry=sys.argv[2] == "on", folder=Path(sys.argv[1]) / "own")
from mem0.memory import telemetry
print(bool(telemetry.MEM0_TELEMETRY), telemetry.client_telemetry.posthog is not None, tried)
"""


def load(folder: Path, telemetry: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MEM0_")}
    return subprocess.run(
        [sys.executable, "-c", CODE, str(folder), telemetry],
        env={**inherited, "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_telemetry_is_off_and_the_home_folder_untouched(tmp_path: Path) -> None:
    done = load(tmp_path, "off")
    assert done.stdout == "False False []\n", done.stderr
    assert (tmp_path / "own" / "config.json").exists()
    assert not (tmp_path / ".mem0").exists()


def test_mem0_that_reports_already_is_refused(tmp_path: Path) -> None:
    (tmp_path / "early").touch()
    assert "MEM0_TELEMETRY=False" in load(tmp_path, "off").stderr
    assert load(tmp_path, "off", MEM0_TELEMETRY="False").returncode == 0


def test_other_major_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process, "version", lambda _: "1.0.11")
    with mem0_error("setup", match=r"1\.0\.11 is installed"):
        in_process.check_package()


ROOT = Path(__file__).resolve().parents[3]
OLDEST = "2.0.0"
TESTS = ("test_devall.py", "test_failures.py", "test_outbox.py", "test_items.py", "test_in_process.py")


@pytest.mark.kit
def test_oldest_supported_version(tmp_path: Path) -> None:
    assert f'mem0 = ["mem0ai>={OLDEST},<3"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    folder = tmp_path / "old"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*install, "--target", str(folder), f"mem0ai=={OLDEST}"], check=True)
    tests = [str(Path(__file__).parent / name) for name in TESTS]
    version = "import importlib.metadata, mem0, pytest, sys; assert importlib.metadata.version('mem0ai') == %r; "
    code = version % OLDEST + "sys.exit(pytest.main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder), "MEM0_TELEMETRY": "False", "MEM0_DIR": str(tmp_path / "mem0")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
