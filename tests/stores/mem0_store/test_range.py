"""The oldest supported mem0 makes the same requests and answers as the newest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
