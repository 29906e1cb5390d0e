"""The container image and the services beside it: their files are right, and their commands work."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tools.container import (
    COMPOSE_FILE,
    CONTAINERFILE,
    ContainerFileError,
    ImageFolder,
    Instruction,
    copy_context,
    expanded,
    instructions_of,
    rehearse,
    services_of,
)
from tools.hosts.environments import CommandFailedError
from tools.wheel import ROOT

VARIABLES = {"POSTGRES_PASSWORD": "secret"}


def own() -> list[Instruction]:
    return instructions_of(CONTAINERFILE.read_text(encoding="utf-8"))


def values(keyword: str) -> list[str]:
    return [each.value for each in own() if each.keyword == keyword]


def last_stage() -> list[str]:
    keywords = [each.keyword for each in own()]
    return keywords[len(keywords) - keywords[::-1].index("FROM") :]


def test_hadolint_has_no_objection() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    command = [str(hadolint), "--failure-threshold", "warning", str(CONTAINERFILE)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_is_slim_not_roots_and_checks_its_health() -> None:
    assert all(re.fullmatch(r"docker\.io/library/python:\S+-slim( AS \w+)?", base) for base in values("FROM"))
    assert {"USER", "VOLUME", "HEALTHCHECK", "ENTRYPOINT", "CMD"} <= set(last_stage())
    assert "COPY" not in last_stage()[last_stage().index("USER") :], "the server cannot change its own code"
    (owner,) = (value for value in values("ARG") if value.startswith("OWNER"))
    assert re.fullmatch(r"OWNER=[1-9]\d+:[1-9]\d+", owner)
    assert values("USER") == ["${OWNER}"]


def test_the_image_has_extras_that_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (listed,) = re.findall(r'"\.\[(.+)\]"', "\n".join(values("RUN")))
    assert set(listed.split(",")) <= set(project["optional-dependencies"])
    assert {"mcp", "postgres"} <= set(listed.split(","))


@pytest.mark.sources
def test_an_engine_gets_the_files_that_are_copied_and_no_others(tmp_path: Path) -> None:
    copy_context(tmp_path)
    copied = {word for each in own() if each.keyword == "COPY" and not each.flags for word in each.words()[:-1]}
    assert {file.name for file in tmp_path.iterdir()} == copied
    assert (tmp_path / "devmem" / "py.typed").is_file()
    assert not list(tmp_path.rglob("__pycache__"))


def test_the_services_are_reached_from_this_machine_only_and_have_no_password_of_ours() -> None:
    services = services_of(COMPOSE_FILE, VARIABLES)
    assert services["memory"]["ports"] == ["127.0.0.1:8000:8000"]
    assert "ports" not in services["postgres"]
    assert services["memory"]["environment"]["PGPASSWORD"] == services["postgres"]["environment"]["POSTGRES_PASSWORD"]
    with pytest.raises(ContainerFileError, match=r"POSTGRES_PASSWORD .* \.env"):
        services_of(COMPOSE_FILE, {})


def test_the_services_name_what_there_is() -> None:
    document = yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8"))
    memory, postgres = (document["services"][name] for name in ("memory", "postgres"))
    assert (ROOT / memory["build"]["dockerfile"]).samefile(CONTAINERFILE)
    assert memory["environment"]["PGHOST"] in document["services"]
    assert memory["environment"]["PGUSER"] == postgres["environment"]["POSTGRES_USER"]
    assert memory["environment"]["PGDATABASE"] == postgres["environment"]["POSTGRES_DB"]
    mounted = dict(volume.split(":") for service in (memory, postgres) for volume in service["volumes"])
    assert mounted.keys() == document["volumes"].keys()
    assert mounted["devmem"] in values("VOLUME")


def test_the_services_differ_from_the_image_in_the_memory_alone() -> None:
    (command,) = (each.words() for each in own() if each.keyword == "CMD")
    served = services_of(COMPOSE_FILE, VARIABLES)["memory"]["command"]
    assert (served[0], served[2:]) == (command[0], command[2:])


def test_lines_are_joined_and_comments_and_flags_told_apart() -> None:
    text = "# first\nHEALTHCHECK --interval=3s \\\n  # between\n  CMD x\n\nEXPOSE 80"
    first, second = instructions_of(text)
    assert (first.line, first.flags, first.value) == (2, {"interval": "3s"}, "CMD x")
    assert (second.line, second.words()) == (6, ["80"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("FROM x\nONBUILD RUN y", r"file:2: 'ONBUILD RUN y' is not one of ARG, "),
        ("FROM", r"file:1: 'FROM' is not one of"),
        ("FROM x\nRUN y \\\n", r"file:2: the file ends within"),
    ],
)
def test_a_line_that_is_not_understood_is_named(text: str, problem: str) -> None:
    with pytest.raises(ContainerFileError, match=problem):
        instructions_of(text)


@given(st.text(st.sampled_from('ARUN #\\-=$x1\n"[')))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = instructions_of(text)
    except ContainerFileError:
        return
    assert all(each.value and each.line <= text.count("\n") + 1 for each in found)


def test_variables_are_replaced_as_engines_do() -> None:
    assert expanded("$A/${A}/${B:-b}/${A:-b}", {"A": "a"}) == "a/a/b/a"
    with pytest.raises(ContainerFileError, match="B has no value: set it"):
        expanded("${B:?set it}", {"B": ""})


SMALL = """
FROM base AS build
WORKDIR /build
COPY letter ./
RUN mkdir /kept && cp letter /kept/letter && env > /kept/variables
FROM base
ARG OWNER=1:1
COPY --from=build /kept /kept
ENV KEPT=/kept:$PATH
WORKDIR /data
VOLUME /data
USER ${OWNER}
ENTRYPOINT ["sh", "-c"]
CMD ["cat ../kept/letter"]
"""


def test_instructions_are_carried_out_below_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "hidden")
    context, root = tmp_path / "context", ImageFolder(tmp_path / "image")
    context.mkdir()
    (context / "letter").write_text("Dear Ann")
    image = root.build(instructions_of(SMALL), context)
    assert root.run(image, *image.command) == "Dear Ann"
    assert not root.path("/build").exists(), "a later stage does not have what it did not copy"
    assert image.env["KEPT"].startswith(f"{root.path('/kept')}:")
    assert "hidden" not in root.path("/kept/variables").read_text()


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [("COPY note /note", "file:3: note is not in the context"), ("COPY --from=build /a /b", "file:3: stages share")],
)
def test_a_file_that_is_not_there_is_named(tmp_path: Path, wrong: str, problem: str) -> None:
    with pytest.raises(ContainerFileError, match=problem):
        ImageFolder(tmp_path / "image").build(instructions_of(f"FROM x\nWORKDIR /a\n{wrong}"), tmp_path)


def test_a_server_that_ends_at_once_is_reported_with_what_it_said(tmp_path: Path) -> None:
    text = 'FROM x\nWORKDIR /data\nHEALTHCHECK CMD ["false"]\nENTRYPOINT ["sh", "-c"]'
    root = ImageFolder(tmp_path / "image")
    image = root.build(instructions_of(text), tmp_path)
    with (
        pytest.raises(CommandFailedError, match=r"not healthy.*\n.*no tokens"),
        root.started(image, ["echo no tokens; exit 3"], {}),
    ):
        pytest.fail("it was never healthy")


@pytest.mark.kit
@pytest.mark.sources
def test_the_commands_of_both_files_serve_a_memory(tmp_path: Path) -> None:
    """An engine, where there is one, is taken by `make container`."""
    steps = list(rehearse(tmp_path))
    assert [step.split(",")[0] for step in steps[1:]] == ["served memory.db", "served postgresql:///?store=memory"]
