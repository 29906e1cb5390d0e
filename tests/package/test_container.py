"""The container image and the services beside it: what their files promise; `make container` builds and starts them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml

from tools.wheel import ROOT

CONTAINERFILE = ROOT / "Containerfile"


def values(keyword: str) -> list[str]:
    """Return what follows a keyword of the Containerfile, in each of its instructions."""
    lines = CONTAINERFILE.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    return [line.removeprefix(keyword).strip() for line in lines if line.startswith(f"{keyword} ")]


def services() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    return document


def test_hadolint_has_no_objection() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    command = [str(hadolint), "--failure-threshold", "warning", str(CONTAINERFILE)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_is_slim_not_roots_and_checks_its_health() -> None:
    assert all(re.fullmatch(r"docker\.io/library/python:\S+-slim( AS \w+)?", base) for base in values("FROM"))
    assert values("VOLUME") == ["/data"]
    assert values("HEALTHCHECK") != []
    (owner,) = (value for value in values("ARG") if value.startswith("OWNER"))
    assert re.fullmatch(r"OWNER=[1-9]\d+:[1-9]\d+", owner)
    assert values("USER") == ["${OWNER}"]


def test_the_image_has_files_and_extras_that_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (listed,) = re.findall(r'"\.\[(.+)\]"', "\n".join(values("RUN")))
    assert set(listed.split(",")) <= set(project["optional-dependencies"])
    assert {"mcp", "postgres"} <= set(listed.split(","))
    copied = [word for value in values("COPY") if not value.startswith("--") for word in value.split()[:-1]]
    assert [word for word in copied if not (ROOT / word).exists()] == []


def test_the_services_are_reached_from_this_machine_only_and_have_no_password_of_ours() -> None:
    memory, postgres = (services()["services"][name] for name in ("memory", "postgres"))
    assert memory["ports"] == ["127.0.0.1:${DEVMEM_PORT:-8000}:8000"]
    assert "ports" not in postgres
    assert memory["environment"]["PGPASSWORD"] == postgres["environment"]["POSTGRES_PASSWORD"]
    assert memory["environment"]["PGPASSWORD"].startswith("${POSTGRES_PASSWORD:?")
