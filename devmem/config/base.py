"""The base of every configuration model, ours and a plugin's."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any, ClassVar, Final, Literal, Protocol, TypeAlias, TypeVar, get_args, get_origin

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    WithJsonSchema,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ValidationInfo

from devmem.config.document import DocumentPath, SourcePosition
from devmem.redaction import hide, usable_key, without_credentials
from devmem.text.durations import parse_duration
from devmem.text.files import expanded

Annotation: TypeAlias = Any
"""A field's annotation as it is at run time: a class, a union, a generic alias."""


def mentions(annotation: Annotation, *wanted: type) -> bool:
    """Whether a field's annotation is one of the types, or a union or container of them."""
    if get_origin(annotation) is None:
        return annotation in wanted
    return any(mentions(part, *wanted) for part in get_args(annotation))


class ConfigModel(BaseModel):
    """Base of every configuration model: immutable, unknown keys are errors, and a flag is never a number.

    A field's title, description, default and bounds are said once, in its `Field`; the JSON Schema, the form fields and
    the YAML template are made from them. `json_schema_extra={"advanced": True}` marks a field that most leave alone.
    An optional text, path or secret that is given as empty text counts as not given, and so does an empty block.

    A store type that never takes writes says so with `read_only: ClassVar[bool] = True`, and one that a workflow's
    `conversation` block may name with `keeps_records`; one that can take part in a workflow's transaction with
    `keeps_versions`. `has_similarity = False` says that its answers know no similarity to the query.
    A model whose `extra` is "ignore" lists the keys that other systems read there in `foreign`.
    For a plan, `sends_to` names the addresses that a store sends its items to, and `idle_models` the paths of
    the blocks whose models no run asks.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        # Docstrings are read, and validators built, when they are first needed: importing a store costs neither.
        defer_build=True,
        validate_default=False,
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )

    foreign: ClassVar[Mapping[str, str]] = {}
    """Keys of other systems, each with the words that devmem does not carry it out; empty where nothing is lost."""

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Return what the representation shows: without the passwords in URLs."""
        for name, value in super().__repr_args__():
            yield name, without_credentials(value) if isinstance(value, str) else value

    @field_validator("*", mode="before")
    @classmethod
    def _keep_flags_and_numbers_apart(cls, value: object, info: ValidationInfo) -> object:
        """Refuse `top_k: true` and `read: 1`, which pydantic would take for 1 and true."""
        field = cls.model_fields.get(info.field_name or "")
        if field is None or isinstance(value, Enum):
            return value
        wants_flag = mentions(field.annotation, bool)
        if isinstance(value, bool) and not wants_flag and mentions(field.annotation, int, float):
            raise PydanticCustomError("number_expected", "expected a number")
        if isinstance(value, (int, float)) and not isinstance(value, bool) and wants_flag:
            raise PydanticCustomError("flag_expected", "expected true or false")
        return value

    @field_validator("*", mode="after")
    @classmethod
    def _hide_secrets(cls, value: object, info: ValidationInfo) -> object:
        """Keep every secret out of messages; a key is taken without the white space around it."""
        secret = value.get_secret_value() if isinstance(value, SecretStr) else "${"
        if "${" in secret:  # a variable that is not set
            return value
        if info.field_name != "api_key":
            hide(secret)
            return value
        where = f" of {info.context.place.path}" if isinstance(info.context, Declared) else ""
        return SecretStr(usable_key(secret, f"`api_key`{where}"))

    @field_validator("*", mode="before")
    @classmethod
    def _take_nothing_for_the_default(cls, value: object, info: ValidationInfo) -> object:
        """Let `base_url: ${BASE_URL:-}` mean that there is none, and `params:` with nothing below it an empty block."""
        field = cls.model_fields.get(info.field_name or "")
        if field is None or value not in ("", None):
            return value
        is_optional = mentions(field.annotation, type(None))
        if value == "":
            return None if is_optional and mentions(field.annotation, str, SecretStr, Path) else value
        kind: Annotation = get_origin(field.annotation) or field.annotation
        is_block = isinstance(kind, type) and issubclass(kind, (list, tuple, dict, BaseModel))
        if is_optional or field.is_required() or not is_block:
            return value
        return field.get_default(call_default_factory=True, validated_data={})


def blocks_of(config: ConfigModel, path: DocumentPath = ()) -> Iterator[tuple[DocumentPath, ConfigModel]]:
    """Yield the blocks of some settings with their paths, those within others and in lists too."""
    for key, value in config:
        entries = [((*path, key), value)]
        if isinstance(value, tuple):
            entries = [((*path, key, index), each) for index, each in enumerate(value)]
        for where, block in entries:
            if isinstance(block, ConfigModel):
                yield where, block
                yield from blocks_of(block, where)


@dataclass(frozen=True, slots=True)
class ReadBy:
    """Marks a key that only some of devmem's own providers or types read; those of plugins may read any."""

    names: tuple[str, ...]


class MemoryOptions(ConfigModel):
    """The block of recalled items, for all agents or for one."""

    token_budget: int | None = Field(default=4000, gt=0)
    """Estimated tokens that the block of recalled items may take; null sets no limit."""
    language: Literal["en", "zh"] = "en"
    """Language of the block's header, marks and labels; what was said stays unchanged."""
    dedupe: bool = Field(default=True, title="Leave out repeats")
    """Show once what several stores returned, or what another line of the day says too."""
    origins: bool = Field(default=True, title="Mark origins", json_schema_extra={"advanced": True})
    """Mark items that came from a file, a tool, an import or another agent, as in `(tool search)`."""
    ranking: Literal["store", "devall"] = Field(default="store", json_schema_extra={"advanced": True})
    """Which items come first where not all fit: each store's own order, or DevAll's score of age, length and shared
    words; the block is in order of time."""

    def overridden_by(self, other: MemoryOptions | None) -> MemoryOptions:
        """Return these options with those that `other` sets explicitly in their place."""
        if other is None:
            return self
        return self.model_copy(update={name: getattr(other, name) for name in other.model_fields_set})


Duration: TypeAlias = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]}, mode="validation"),
]
"""Seconds, written as a number or as text such as `30d`, `12h`, `1h 30m`."""
_Path = TypeVar("_Path", str, Path)


def _in_known_home(path: _Path) -> _Path:
    try:
        expanded(path)
    except FileNotFoundError as error:
        raise ValueError(error.strerror) from error
    return path


KNOWN_HOME: Final = AfterValidator(_in_known_home)
"""Refuses a path below the home folder of a user who does not exist, such as `~no-such-user/notes.db`."""


def _is_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return pattern


Pattern: TypeAlias = Annotated[str, AfterValidator(_is_pattern)]
"""A regular expression."""


def field_description(model: type[BaseModel], name: str) -> str | None:
    """Return a field's description: that of its `Field`, or else the docstring under it, in its class or a base."""
    given = model.model_fields[name].description
    if given is not None:
        return given
    found = (_docstrings(base).get(name) for base in model.__mro__ if name in inspect.get_annotations(base))
    return next(found, None)


@cache
def _docstrings(model: type) -> Mapping[str, str]:
    """Return the docstrings of a class by field; none where its source cannot be had, as at a prompt."""
    try:
        source = dedent(inspect.getsource(model))
    except (OSError, TypeError):
        return {}
    (definition,) = ast.parse(source).body
    found: dict[str, str] = {}
    for field, text in pairwise(definition.body if isinstance(definition, ast.ClassDef) else ()):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(docstring))):
                found[name] = inspect.cleandoc(docstring)
    return found


def keys_of(name: str, field: FieldInfo) -> tuple[str, ...]:
    """Return the keys that YAML may use for a field, the preferred one first."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return tuple(choice for choice in alias.choices if isinstance(choice, str))
    return (alias if isinstance(alias, str) else name,)


def all_keys(models: Sequence[type[BaseModel]]) -> list[str]:
    """Return every key that one of the models reads, in their order."""
    keys = (key for model in models for name, field in model.model_fields.items() for key in keys_of(name, field))
    return list(dict.fromkeys(keys))


def one_line(text: str) -> str:
    """Return a docstring's text without its line breaks."""
    return " ".join(text.split())


def models_in(annotation: Annotation) -> Iterator[type[BaseModel]]:
    """Yield the models that an annotation names, inside unions and containers too."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def field_at(model: type[BaseModel], path: DocumentPath) -> tuple[tuple[type[BaseModel], ...], Annotation]:
    """Return the models that may stand at a path below `model`, and the annotation of the field there, if any."""
    models: tuple[type[BaseModel], ...] = (model,)
    annotation: Annotation = None
    for step in path:
        if isinstance(step, int):
            continue
        origin: Annotation = get_origin(annotation)
        if origin in (dict, Mapping):
            # The step is a key of a user's, not a field.
            annotation = get_args(annotation)[1]
            models = tuple(models_in(annotation))
            continue
        annotations = [
            field.annotation
            for one in models
            for name, field in one.model_fields.items()
            if step in keys_of(name, field)
        ]
        annotation = annotations[0] if annotations else None
        models = tuple(dict.fromkeys(inner for one in annotations for inner in models_in(one)))
    return models, annotation


class StoreTypes(Protocol):
    """The store types, rerankers and embedding providers that a workflow may name.

    The registry, which lives on a higher floor, is one.
    """

    def names(self) -> Sequence[str]:
        """Return the names of all known types; nothing is imported for it."""
        ...

    def config_model(self, name: str) -> type[ConfigModel]:
        """Return the model of a type's `config:` block.

        Raises:
            PluginError: there is no such type, or its package cannot be used.
        """
        ...

    def summary(self, name: str) -> str:
        """Return one line for people about a type."""
        ...

    def rerankers(self) -> Sequence[str]:
        """Return what a `reranker:` block may give as its `type`; nothing is imported for it."""
        ...

    def embedding_providers(self) -> Sequence[str]:
        """Return what an `embedding:` block may give as its `provider`; nothing is imported for it."""
        ...

    def guard_checks(self) -> Sequence[str]:
        """Return what an entry of `guard: {checks: ...}` may give as its `type`; nothing is imported for it."""
        ...

    def check_location(self, location: str, *, states: bool) -> None:
        """Check that a store's items, and its states beside them, can be kept at a URL; nothing is opened.

        Raises:
            DevmemError: they cannot; a `MissingExtraError` where a package is missing.
        """
        ...

    def load_plugin(self, module: str) -> None:
        """Import a module named under `plugins:`, or the file of a path, so that what it registers is known.

        Raises:
            PluginError: the module cannot be imported.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """Context of the validation of a model that a document declares."""

    place: SourcePosition
    types: StoreTypes


UNKNOWN_NAME: Final = "unknown_name"
"""Kind of pydantic's error about a name that nothing offers; its context has `what` was named and the `possible`."""


def unknown_name(what: str, possible: Iterable[str]) -> PydanticCustomError:
    """Return the error about a name that is not among those that are possible."""
    return PydanticCustomError(UNKNOWN_NAME, "unknown {what}", {"what": what, "possible": list(possible)})


def offered(what: str, names: Callable[[StoreTypes], Sequence[str]]) -> AfterValidator:
    """Return the validator of a name that the store types of a document, or the plugins, have to offer."""

    def check(name: str, info: ValidationInfo) -> str:
        if isinstance(info.context, Declared) and name not in (possible := names(info.context.types)):
            raise unknown_name(what, possible)
        return name

    return AfterValidator(check)


class Placed(ConfigModel):
    """A model that knows where it was declared: validating it with `Declared` as context tells it."""

    _place: SourcePosition = PrivateAttr(default_factory=SourcePosition)

    @property
    def place(self) -> SourcePosition:
        """Where this was declared."""
        return self._place

    def model_post_init(self, context: object) -> None:
        """Keep the place that validation was given."""
        if isinstance(context, Declared):
            self._place = context.place
