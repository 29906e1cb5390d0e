"""Generated pages of the reference: every key of a workflow, every command, every public name.

Each page is Markdown that is made of what the program itself reads: the fields of the configuration models, the
command line's parameters, and the signatures and docstrings of public names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import typer

from devmem.cli.app import app
from devmem.config import ConfigModel, FieldSpec, field_specs
from devmem.config.workflow import WorkflowDocument
from devmem.plugins import registry
from tools.site.adapters import adapters_page
from tools.site.names import PACKAGES, package_page

INDEX: Final = "reference/README.md"
_INDEX_HEAD: Final = """\
# Reference

These pages are generated from the program, and name everything that it has.

* [Keys of a workflow file](keys.md): type, default and meaning of every key
* [Commands](commands.md): arguments and options of `devmem`
"""
_KEYS_HEAD: Final = """\
# Keys of a workflow file

Every key with its type and default, as the models of the configuration define them.
[Configuration](../configuration.md) explains them with examples.
`devmem validate --format schema` prints the JSON Schema.
In DevAll's documents all but `version` and `vars` stand under `graph`.
"""
_COMMANDS_HEAD: Final = """\
# Commands

Arguments and options of every command, as `devmem COMMAND --help` prints them.
[The command line](../cli.md) explains them with examples.
"""


def write_reference(folder: Path) -> None:
    """Write the generated pages into the folder of the site's pages, and name them on the start page."""
    (folder / "reference").mkdir()
    pages = {"keys.md": keys_page(), "commands.md": commands_page()}
    lines = []
    for package, about in PACKAGES.items():
        pages[f"{package}.md"] = package_page(package)
        lines.append(f"* [{package}]({package}.md): {about}\n")
    pages["adapters.md"] = adapters_page()
    lines.append("* [devmem.adapters](adapters.md): behind other frameworks\n")
    for name, text in pages.items():
        (folder / "reference" / name).write_text(text, encoding="utf-8")
    (folder / INDEX).write_text(_INDEX_HEAD + "".join(lines), encoding="utf-8")
    start = folder / "index.md"
    mark = "* [The command line](cli.md)"
    before, found, after = start.read_text(encoding="utf-8").partition(mark)
    line, _, rest = after.partition("\n")
    own = f"* [Every key, command and name]({INDEX}): generated from the program\n"
    start.write_text(f"{before}{found}{line}\n{own}{rest}", encoding="utf-8")


def keys_page() -> str:
    """Return the page of a workflow's keys: a section for each block, with a table of its keys."""
    blocks = _blocks()
    sections = [_block_section(model, paths, blocks) for model, paths in blocks.items()]
    return "\n".join([_KEYS_HEAD, *sections])


def commands_page() -> str:
    """Return the page of all commands."""
    group: Any = typer.main.get_command(app)
    sections = [_command_section("devmem", group)]
    sections += [_command_section(f"devmem {name}", group.commands[name].loaded) for name in sorted(group.commands)]
    return "\n".join([_COMMANDS_HEAD, *sections])


def _blocks() -> dict[type[ConfigModel], list[str]]:
    """Return every model of a workflow with the paths at which its keys stand, the document's first."""
    blocks: dict[type[ConfigModel], list[str]] = {WorkflowDocument: [""]}
    waiting: list[tuple[type[ConfigModel], str]] = [(WorkflowDocument, "")]
    while waiting:
        model, path = waiting.pop(0)
        for spec in field_specs(model, registry):
            for child, at in _children(spec, f"{path}.{spec.name}" if path else spec.name):
                if child not in blocks:
                    waiting.append((child, at))
                blocks.setdefault(child, []).append(at)
    # The block becomes a URL, so that the field holds a string.
    return blocks


def _children(spec: FieldSpec, path: str) -> Iterator[tuple[type[ConfigModel], str]]:
    at = f"{path}[]" if spec.type_hint.startswith("list") else path
    if spec.child is not None:
        yield spec.child, at
    for route in spec.child_routes:
        yield route.model, f"{at} ({route.field}: {route.value})"


def _title(paths: Sequence[str]) -> str:
    return f"`{paths[0]}`" if paths[0] else "The document"


def _anchor(model: type[ConfigModel]) -> str:
    return f"keys-{model.__name__.lower()}"


def _block_section(
    model: type[ConfigModel], paths: Sequence[str], blocks: Mapping[type[ConfigModel], Sequence[str]]
) -> str:
    lines = [f"({_anchor(model)})=", f"## {_title(paths)}", ""]
    if len(paths) > 1:
        lines += ["Also at " + ", ".join(f"`{path}`" for path in paths[1:]) + ".", ""]
    lines += ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for spec in field_specs(model, registry):
        names = ", ".join(f"`{name}`" for name in (spec.name, *spec.aliases))
        lines.append(f"| {names} | {_type(spec)} | {_default(spec)} | {_meaning(spec, blocks)} |")
    return "\n".join([*lines, ""])


def _type(spec: FieldSpec) -> str:
    if spec.enum:
        return ", ".join(f"`{value}`" for value in spec.enum)
    return f"`{spec.type_hint}`".replace("|", "\\|")


def _default(spec: FieldSpec) -> str:
    if spec.required:
        return "required"
    return "none" if spec.default is None else f"`{json.dumps(spec.default, ensure_ascii=False)}`".replace("|", "\\|")


def _meaning(spec: FieldSpec, blocks: Mapping[type[ConfigModel], Sequence[str]]) -> str:
    below = [child for child, _ in _children(spec, spec.name)]
    links = ", ".join(f"[{_title(blocks[child])}](#{_anchor(child)})" for child in below)
    text = _cell(spec.description or "")
    return f"{text} Keys: {links}." if links else text


def _command_section(name: str, command: Any) -> str:  # noqa: ANN401 - Typer's class is not public
    context = command.context_class(command, info_name=name)
    usage = " ".join(command.get_usage(context).removeprefix("Usage:").split())
    lines = [f"## {name}", "", "```text", usage, "```", "", _help(command.help or ""), ""]
    records = [record for param in command.params if (record := param.get_help_record(context))]
    if records:
        lines += ["| parameter | meaning |", "| --- | --- |"]
        lines += [f"| `{_cell(names)}` | {_cell(about)} |" for names, about in records]
    return "\n".join([*lines, ""])


def _help(text: str) -> str:
    """Return a command's help as Markdown, with its examples as a block."""
    about, found, examples = text.replace("\b", "").partition("Examples:\n")
    if not found:
        about, found, examples = about.partition("Example:\n")
    block = "\n".join(line.strip() for line in examples.strip("\n").splitlines())
    return f"{about.strip()}\n\n```console\n{block}\n```" if found else about.strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
