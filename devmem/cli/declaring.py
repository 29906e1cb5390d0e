"""How commands declare their parameters, and how typer calls them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Protocol, Self, TypeAlias, get_args, get_origin, get_type_hints, runtime_checkable

import typer

from devmem.cli.terminal import Terminal

Parameters: TypeAlias = dict[str, tuple[Any, Any]]
"""Parameters of a command, as typer knows them, by name: their annotation and their default, `...` for none."""


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


@runtime_checkable
class Taken(Protocol):
    """Stands for several parameters of a command, whose values become one."""

    def parameters(self) -> tuple[Parameters, Parameters]:
        """Return the parameters: those of the place where this one stands, and those that come last in the help."""
        ...

    def take(self, terminal: Terminal, given: dict[str, Any], /) -> object:
        """Take the values out of those that are given, and return the value of the parameter."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionGroup:
    """Base of options that belong together: each field that has an annotation as a parameter has is one."""

    @classmethod
    def parameters(cls) -> tuple[Parameters, Parameters]:
        """Return the options, in the place of the group."""
        hints = get_type_hints(cls, include_extras=True)
        declared = [one for one in fields(cls) if get_origin(hints[one.name]) is Annotated]
        return {one.name: (hints[one.name], one.default) for one in declared}, {}

    @classmethod
    def take(cls, _terminal: Terminal, given: dict[str, Any]) -> Self:
        """Take the options out of those that are given, and return them together."""
        return cls(**{name: given.pop(name) for own in cls.parameters() for name in own})


def as_typer(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command as typer calls it.

    A parameter of the type `Terminal` gets the command's, with the option `--json` if its annotation declares it. One
    whose type or annotation is `Taken` stands for the parameters that this names.
    """
    first: Parameters = {"ctx": (typer.Context, ...)}
    last: Parameters = {}
    made: dict[str, Callable[[Terminal, dict[str, Any]], object]] = {}
    for name, each in inspect.signature(function, eval_str=True).parameters.items():
        kind, *marks = _parts(each.annotation)
        if kind is Terminal:
            last |= {"as_json": (Annotated[bool, marks[0]], False)} if marks else {}
            made[name] = _terminal
        elif (several := next((one for one in (*marks, kind) if isinstance(one, Taken)), None)) is not None:
            here, after = several.parameters()
            first, last, made[name] = first | here, last | after, several.take
        else:
            first[name] = (each.annotation, ... if each.default is each.empty else each.default)
    for name, (hint, _) in (first | last).items():
        kind, *marks = _parts(hint)
        if kind is bool and not marks[0].param_decls:
            # Without a name, typer would add an option that turns it off.
            marks[0].param_decls = (f"--{name.replace('_', '-')}",)
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hint,
            default=inspect.Parameter.empty if default is ... else default,
        )
        for name, (hint, default) in (first | last).items()
    ]

    @functools.wraps(function)
    def run(ctx: typer.Context, **given: Any) -> None:  # noqa: ANN401 - any option's value
        values = {name: make(ctx.obj, given) for name, make in made.items()}
        function(**values, **given)

    run.__signature__ = inspect.Signature(added)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in added}
    return run


def _parts(annotation: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any annotation
    """Return the type of an annotation, and what marks it."""
    return get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)


def _terminal(terminal: Terminal, given: dict[str, Any]) -> Terminal:
    """Take the option `--json` out of those that are given, and return the terminal that knows it."""
    terminal.as_json = given.pop("as_json", False)
    return terminal
