"""How the options of a command are declared, each by itself or several together."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Self, get_origin, get_type_hints

import typer

if TYPE_CHECKING:
    from devmem.cli.terminal import Terminal


def argument(metavar: str, about: str) -> Any:  # noqa: ANN401 - see `option`
    """Return the declaration of an argument, as a parameter has it in its annotation."""
    return typer.Argument(metavar=metavar, help=about)


def option(about: str, *names: str, **form: Any) -> Any:  # noqa: ANN401 - typer keeps the class of its options to itself
    """Return the declaration of an option, as a parameter has it in its annotation.

    Args:
        about: its help.
        names: its names, where they are others than that of the parameter.
        form: `metavar`, `min`, `max`, and whatever else typer takes.
    """
    declared = typer.Option(help=about, **form)
    declared.param_decls = names
    return declared


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionGroup:
    """Base of options that belong together: each field that has an annotation as a parameter has is one."""

    @classmethod
    def parameters(cls) -> dict[str, tuple[Any, Any]]:
        """Return the options by name, each with its annotation and its default."""
        hints = get_type_hints(cls, include_extras=True)
        return {
            one.name: (hints[one.name], one.default) for one in fields(cls) if get_origin(hints[one.name]) is Annotated
        }

    @classmethod
    def take(cls, _terminal: Terminal, given: dict[str, Any]) -> Self:
        """Take the options out of those that are given, and return them together."""
        return cls(**{name: given.pop(name) for name in cls.parameters()})
