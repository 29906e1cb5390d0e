"""The container image: built and started beside PostgreSQL by an engine, or step by step without one.

`python -m tools.container` takes Docker or Podman where one of them answers. Elsewhere it carries out the
instructions of `Containerfile` in a folder that stands for the root of the image, and the commands of `compose.yaml`
against a PostgreSQL server of its own. Instructions are those of the Dockerfile reference, as far as the file uses
them; any other is refused.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import pathspec
import psycopg
import typer
import yaml
from psycopg import sql

from tools.hosts.environments import CommandFailedError, run
from tools.postgres_server import USER, PostgresServer, free_port
from tools.wheel import ROOT, clean_environment

CONTAINERFILE: Final = ROOT / "Containerfile"
COMPOSE_FILE: Final = ROOT / "compose.yaml"
IGNORE_FILE: Final = ROOT / ".dockerignore"
PORT: Final = "8000"
"""Port of the server within a container."""
_START_SECONDS: Final = 120
_PAUSE: Final = 0.2
"""Seconds between two checks of a server's health."""
_PROJECT: Final = "devmem-check"
"""Name of the services of a check, beside those that somebody runs."""
_STOP_SECONDS: Final = 10
"""Seconds that engines give a container between SIGTERM and SIGKILL."""
_KNOWN: Final = frozenset(
    "ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK RUN USER VOLUME WORKDIR".split()
)  # fmt: skip
_VARIABLE: Final = re.compile(r"\$(?:\{(?P<braced>\w+)(?::(?P<kind>[-?])(?P<word>[^}]*))?\}|(?P<plain>\w+))")
_ABSOLUTE: Final = re.compile(r"(?:(?<=[\s=:])|^)/(?=\w)")

_BASE_PATH: Final = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
_USER: Final = "ann"
_FACT: Final = "The launch is on June 2nd."

Environment: TypeAlias = dict[str, str]


class ContainerFileError(Exception):
    """An instruction cannot be carried out; the text has its file and line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction of a container file."""

    line: int
    keyword: str
    flags: Mapping[str, str]
    value: str

    def words(self) -> list[str]:
        """Return the words of the value: of the exec form, which is JSON, or as a shell separates them."""
        return list(json.loads(self.value)) if self.value.startswith("[") else shlex.split(self.value)


@dataclass(slots=True, kw_only=True)
class Image:
    """Result of the last stage of a container file."""

    base: str = ""
    env: Environment = field(default_factory=dict)
    folder: str = "/"
    user: str = "root"
    ports: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)


def instructions_of(text: str, name: str = "Containerfile") -> list[Instruction]:
    """Return the instructions of a container file.

    Raises:
        ContainerFileError: a line is not an instruction that is known here.
    """
    found, logical, first = [], "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        first = first if logical else number
        logical += line.strip()
        if logical.endswith("\\"):
            logical = logical[:-1]
            continue
        keyword, _, rest = logical.partition(" ")
        flags: Environment = {}
        while flag := re.match(r"\s*--(?P<name>[\w-]+)=(?P<value>\S+)", rest):
            flags[flag["name"]] = flag["value"]
            rest = rest[flag.end() :]
        if keyword not in _KNOWN or not rest.strip():
            raise ContainerFileError(
                f"{name}:{first}: {logical!r} is not one of {', '.join(sorted(_KNOWN))} and a value"
            )
        found.append(Instruction(line=first, keyword=keyword, flags=flags, value=rest.strip()))
        logical = ""
    if logical:
        raise ContainerFileError(f"{name}:{first}: the file ends within the instruction {logical!r}")
    return found


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Return a text with `$NAME`, `${NAME}`, `${NAME:-default}` and `${NAME:?message}` replaced.

    Raises:
        ContainerFileError: a variable has no value and no default.
    """

    def value_of(found: re.Match[str]) -> str:
        name = found["braced"] or found["plain"]
        if value := variables.get(name, ""):
            return value
        if found["kind"] == "-":
            return str(found["word"])
        raise ContainerFileError(f"the variable {name} has no value: {found['word'] or text}")

    return _VARIABLE.sub(value_of, text)


def services_of(file: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the services of a compose file, with variables replaced in every text."""
    services: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))["services"]
    _fill(services, variables)
    return services


def _fill(part: dict[Any, Any] | list[Any], variables: Mapping[str, str]) -> None:
    for key, value in list(part.items() if isinstance(part, dict) else enumerate(part)):
        if isinstance(value, str):
            part[key] = expanded(value, variables)
        elif isinstance(value, dict | list):
            _fill(value, variables)


class ImageFolder:
    """A folder that stands for the root of an image, in which the instructions of a container file are carried out.

    The base image is this process's Python; the user is this process's, as the interpreter may be readable to no other.
    """

    def __init__(self, root: Path) -> None:
        """Use an empty folder."""
        self.root, self.log = root, root / "log"
        self._owner = f"{os.geteuid()}:{os.getegid()}"

    def path(self, inside: str) -> Path:
        """Return where a path of the image is."""
        return self.root / inside.lstrip("/")

    def build(self, instructions: Sequence[Instruction], context: Path) -> Image:
        """Carry out every instruction and return the image; what only earlier stages have is removed.

        Raises:
            ContainerFileError: a file to copy does not exist, or a variable has no value.
            CommandFailedError: a command failed.
        """
        image, given, build_folders = Image(), dict[str, str](), list[str]()
        for each in instructions:
            if each.keyword == "FROM":
                build_folders.append(image.folder)
                image = Image(base=expanded(each.value, given).split()[0], env={"PATH": _BASE_PATH})
            elif each.keyword == "ARG":
                name, _, default = each.value.partition("=")
                given[name] = self._owner if name == "OWNER" else default
            else:
                self._carry_out(each, image, given, context)
        for folder in build_folders:
            if folder != "/":
                shutil.rmtree(self.path(folder))
        return image

    def files(self) -> set[Path]:
        """Return every file of the image."""
        return {file for file in self.root.rglob("*") if file.is_file() and file != self.log}

    def _carry_out(self, each: Instruction, image: Image, given: Environment, context: Path) -> None:
        variables = {**given, **image.env}
        if each.keyword == "RUN":
            run(["/bin/sh", "-c", self._mapped(each.value)], cwd=self.path(image.folder), env=self._env(image, given))
        elif each.keyword == "COPY":
            self._copy(each, image, context)
        elif each.keyword == "ENV":
            name, _, value = each.value.partition("=")
            # What is there before has its own paths already.
            image.env[name] = expanded(self._mapped(value), variables)
        elif each.keyword == "WORKDIR":
            image.folder = each.value
            self.path(each.value).mkdir(parents=True, exist_ok=True)
        elif each.keyword == "USER":
            image.user = expanded(each.value, variables)
        elif each.keyword == "HEALTHCHECK":
            keyword, _, command = each.value.partition(" ")
            image.health = json.loads(command) if keyword == "CMD" else []
        else:
            words = each.words()
            part = {"EXPOSE": image.ports, "VOLUME": image.volumes, "ENTRYPOINT": image.entrypoint}
            part.get(each.keyword, image.command)[:] = words

    def _copy(self, each: Instruction, image: Image, context: Path) -> None:
        *sources, target = each.words()
        to = self.path(os.path.join(image.folder, target))  # noqa: PTH118
        if "from" in each.flags:
            if [self.path(source) for source in sources] != [to] or not to.exists():
                raise ContainerFileError(f"Containerfile:{each.line}: stages share paths here, so copy to the same one")
            return
        for source in sources:
            file = context / source
            if file.is_dir():
                shutil.copytree(file, to, dirs_exist_ok=True)
            elif file.is_file():
                shutil.copy(file, to / file.name if to.is_dir() else to)
            else:
                raise ContainerFileError(f"Containerfile:{each.line}: {source} is not in the context")

    def _mapped(self, text: str) -> str:
        """Return a text of shell words or paths with every absolute path below the folder."""
        return _ABSOLUTE.sub(f"{self.root}/", text)

    def _env(self, image: Image, more: Mapping[str, str]) -> Environment:
        # Only what says how packages are found comes from this machine: a mirror, certificates, a cache.
        machine = {name: value for name, value in clean_environment().items() if name.startswith(("PIP_", "SSL_"))}
        home = {"HOME": os.environ.get("HOME", "/")}
        return {**home, **machine, **image.env, **more}

    def run(self, image: Image, *arguments: str) -> str:
        """Run the entry point with arguments to its end, as in a new container, and return what it printed."""
        return run([*image.entrypoint, *arguments], cwd=self.path(image.folder), env=image.env)

    @contextmanager
    def started(self, image: Image, arguments: Sequence[str], env: Mapping[str, str]) -> Iterator[str]:
        """Run the entry point with arguments until the block ends, and return its address once it is healthy.

        Raises:
            CommandFailedError: it does not become healthy, or does not end when it is asked to.
        """
        port, environment = str(free_port()), {**image.env, **env}
        # Other programs may have the image's port.
        command, probe = (
            [word.replace(PORT, port) for word in words]
            for words in ([*image.entrypoint, *arguments], image.health)
        )  # fmt: skip
        with self.log.open("w") as output:
            server = subprocess.Popen(
                command, cwd=self.path(image.folder), env=environment, stdout=output, stderr=output
            )
            try:
                _wait_until_healthy(server, probe, environment)
                yield f"http://127.0.0.1:{port}"
                _stop(server)
            except CommandFailedError as error:
                raise CommandFailedError(f"{' '.join(command)}\n{error}\n{self.log.read_text()}") from error
            finally:
                server.kill()
                server.wait()


def _stop(server: subprocess.Popen[bytes]) -> None:
    """Stop a server as an engine does, which waits until it has ended."""
    server.terminate()
    try:
        code = server.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise CommandFailedError(f"it has not ended {_STOP_SECONDS} s after SIGTERM") from error
    # uvicorn raises the signal again when all requests have ended.
    if code not in (0, -signal.SIGTERM):
        raise CommandFailedError(f"it ended with {code} after SIGTERM")


def _wait_until_healthy(server: subprocess.Popen[bytes], probe: Sequence[str], env: Mapping[str, str]) -> None:
    until = time.monotonic() + _START_SECONDS
    while subprocess.run(probe, env=env, capture_output=True).returncode:
        if server.poll() is not None or time.monotonic() > until:
            raise CommandFailedError(f"it is not healthy (exit code {server.returncode})")
        time.sleep(_PAUSE)


@contextmanager
def database(service: Mapping[str, Any]) -> Iterator[PostgresServer]:
    """Start PostgreSQL with the user, password and database of a service, which is healthy when the block begins.

    Raises:
        RuntimeError: the service's health check fails.
    """
    user, name, password = (service["environment"][f"POSTGRES_{part}"] for part in ("USER", "DB", "PASSWORD"))
    with closing(PostgresServer(tcp=True)) as server:
        with psycopg.connect(host=str(server.folder), port=server.port, user=USER, autocommit=True) as administrator:
            role = sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}").format(
                sql.Identifier(user), sql.Literal(password)
            )
            administrator.execute(role)
            administrator.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(*map(sql.Identifier, (name, user))))
            (server.data / "pg_hba.conf").write_text("local all all trust\nhost all all all scram-sha-256\n")
            administrator.execute("SELECT pg_reload_conf()")
        _, *probe = service["healthcheck"]["test"]
        server.run(*probe, f"--port={server.port}")
        yield server


def check_server(url: str, secret: str) -> None:
    """Check that a server with an empty memory answers holders of a token only, stores a text and finds it.

    Raises:
        CommandFailedError: it does something else.
    """
    if (status := request(url, "/v1/memories")[0]) != HTTPStatus.UNAUTHORIZED:
        raise CommandFailedError(f"{url} answers {status} to a request without a token")
    status, answer = request(url, "/v1/memories", secret, {"memories": [{"text": _FACT}]})
    if status != HTTPStatus.CREATED:
        raise CommandFailedError(f"{url} stores nothing: {status} {answer}")
    check_kept(url, secret)


def check_kept(url: str, secret: str) -> None:
    """Check that a server finds what `check_server` stored, and has nothing else.

    Raises:
        CommandFailedError: it does something else.
    """
    _, found = request(url, "/v1/search", secret, {"query": "When do we start?"})
    _, listed = request(url, "/v1/memories", secret)
    if [each["text"] for each in found.get("memories", [])] != [_FACT] or listed.get("total") != 1:
        raise CommandFailedError(f"{url} found {found}, and has {listed}, instead of {_FACT!r} alone")


def request(url: str, path: str, secret: str = "", body: object = None) -> tuple[int, Any]:
    """Send a request with a token, if there is one, and return the status of the answer and its JSON."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {secret}"} if secret else {})
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, data, headers), timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def rehearse(folder: Path) -> Iterator[str]:
    """Carry out the commands of both files without an engine, in an empty folder; return each step that worked.

    The server runs by the command of the image, whose memory is a file, then by that of the compose file.

    Raises:
        ContainerFileError: a file is wrong.
        CommandFailedError: a command failed, or the server does something else than it should.
    """
    context, root = folder / "context", ImageFolder(folder / "image")
    copy_context(context)
    image = root.build(instructions_of(CONTAINERFILE.read_text(encoding="utf-8")), context)
    yield f"built in {root.root}"
    before = root.files()
    secret = json.loads(root.run(image, "token", "add", _USER, "--json"))["token"]
    with root.started(image, image.command, {}) as url:
        check_server(url, secret)
    yield f"served {image.command[1]}"
    services = services_of(COMPOSE_FILE, {"POSTGRES_PASSWORD": secrets.token_urlsafe()})
    memory = services["memory"]
    with database(services["postgres"]) as server:
        # Where the engine would have the service's name lead.
        env = {**memory["environment"], "PGHOST": "127.0.0.1", "PGPORT": str(server.port)}
        with root.started(image, memory["command"], env) as url:
            check_server(url, secret)
            server.restart()
            check_kept(url, secret)
        with root.started(image, memory["command"], env) as url:
            check_kept(url, secret)
    yield f"served {memory['command'][1]}, also after a restart of the database, and of the server"
    volumes = [root.path(volume) for volume in image.volumes]
    if outside := [file for file in root.files() - before if not any(file.is_relative_to(each) for each in volumes)]:
        raise CommandFailedError(f"the server wrote outside of {', '.join(image.volumes)}: {outside}")


def copy_context(target: Path) -> None:
    """Copy the files that an engine gets, which are those that `.dockerignore` admits."""
    lines = IGNORE_FILE.read_text(encoding="utf-8").splitlines()
    ignored = pathspec.GitIgnoreSpec.from_lines(lines)
    for name in ignored.match_tree_files(ROOT, negate=True):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)


def found_engine() -> str | None:
    """Return the name of a container engine that answers and has `compose`; None where there is none."""
    for name in ("docker", "podman"):
        commands = ([name, "info"], [name, "compose", "version"])
        if shutil.which(name) and not any(subprocess.run(each, capture_output=True).returncode for each in commands):
            return name
    return None


def run_with(engine: str) -> Iterator[str]:
    """Build and start the services of the compose file with an engine, and remove them; return each step that worked.

    Raises:
        CommandFailedError: a command failed, or the server does something else than it should.
    """
    port = str(free_port())
    env = {**os.environ, "POSTGRES_PASSWORD": secrets.token_urlsafe(), "DEVMEM_PORT": port}
    url = f"http://127.0.0.1:{port}"

    def compose(*words: str) -> str:
        return run([engine, "compose", "--project-name", _PROJECT, "--file", str(COMPOSE_FILE), *words], env=env)

    try:
        compose("build")
        yield f"built by {engine}"
        once = ("run", "--rm", "--no-deps", "-T")
        if compose(*once, "--entrypoint", "id", "memory", "-u").strip() == "0":
            raise CommandFailedError("the image runs as root")
        secret = json.loads(compose(*once, "memory", "token", "add", _USER, "--json"))["token"]
        compose("up", "--detach")
        for check in (check_server, check_kept):
            container = compose("ps", "--quiet", "memory").strip()
            _wait_for_container(engine, container)
            check(url, secret)
            compose("restart", "memory")
        yield "served a memory in PostgreSQL, and again after a restart"
    finally:
        compose("down", "--volumes")


def _wait_for_container(engine: str, container: str) -> None:
    until = time.monotonic() + _START_SECONDS
    state = ""
    while state != "healthy":
        if time.monotonic() > until:
            raise CommandFailedError(f"the container is {state}: {run([engine, 'logs', container])}")
        time.sleep(_PAUSE)
        state = run([engine, "inspect", "--format", "{{.State.Health.Status}}", container]).strip()


app = typer.Typer(add_completion=False)


@app.command()
def main(
    without_engine: Annotated[bool, typer.Option("--without-engine", help="Use no engine, if there is one.")] = False,
) -> None:
    """Build the image and start it beside PostgreSQL, with a container engine where one answers."""
    engine = None if without_engine else found_engine()
    if engine is None:
        typer.echo("without a container engine: the commands of Containerfile and compose.yaml are run in a folder")
    try:
        with tempfile.TemporaryDirectory(prefix="devmem-container-") as folder:
            for step in rehearse(Path(folder)) if engine is None else run_with(engine):
                typer.echo(step)
    except (ContainerFileError, CommandFailedError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


if __name__ == "__main__":
    app()
