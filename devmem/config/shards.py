"""A store whose items are spread over several databases: the block of `memory_path`, and the URL that stands for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from os.path import normpath
from pathlib import Path, PurePath
from typing import Annotated, Any, Final, Literal, Self, TypeAlias
from urllib.parse import parse_qsl, quote, urlsplit

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from devmem.config.base import KNOWN_HOME, ConfigModel
from devmem.config.findings import choices, closest, did_you_mean, expectation, found, possible_values
from devmem.redaction import without_credentials
from devmem.text.files import expanded

SCHEME: Final = "shards://"
ShardBy: TypeAlias = Literal["user", "agent", "conversation"]
"""The part of an item's scope by which it belongs to a tenant."""
_OPTION: Final = "on_down"
MOST_SHARDS: Final = 64
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,62}", re.ASCII)


class ShardsConfig(ConfigModel):
    """Databases that share one store's items: each tenant lives in one of them."""

    shards: dict[str, Annotated[str, KNOWN_HOME]] = Field(min_length=1, max_length=MOST_SHARDS)
    """The databases by name: paths of SQLite files and URLs of PostgreSQL stores. A list names each after its file, or
    its host and database. A shard keeps its name when its database moves."""
    by: ShardBy = "user"
    """Part of an item's scope that makes it a tenant's. Items without it are one tenant together."""
    on_down: Literal["report", "fail"] = "report"
    """Answer of a search over all tenants while a shard cannot be reached: `report` returns the hits of the others and
    names the shard, `fail` raises. A search within a tenant of that shard always raises."""

    @field_validator("shards", mode="before")
    @classmethod
    def _name_each(cls, given: object) -> object:
        if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
            return given
        named = {name_of(each): each for each in given}
        if len(named) < len(given):
            raise ValueError("two shards would have the same name: give them names, as in {one: a/x.db, two: b/x.db}")
        return named

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, location in self.shards.items():
            if not _NAME.fullmatch(name) or name == _OPTION:
                raise ValueError(
                    f"the shard's name {name!r} is not usable: up to 63 ASCII letters, digits, '-', '_' and '.'"
                )
            if not location or location.lower().startswith(SCHEME) or location in (":memory:", "auto"):
                raise ValueError(f"shard {name!r}: a shard is the path of a SQLite file or the URL of a database")
            if location.endswith(".json"):
                raise ValueError(f"shard {name!r}: a JSON file cannot be one: use a path that ends with .db")
        places = {place if "://" in place else normpath(place) for place in self.shards.values()}
        if len(places) < len(self.shards):
            raise ValueError("two shards are the same database")
        return self

    def url(self) -> str:
        """Return the URL that stands for the block; `parse` reads it."""
        named = "&".join(f"{name}={quote(location, safe=':/@,=~')}" for name, location in self.shards.items())
        return f"{SCHEME}{self.by}?{named}" + (f"&{_OPTION}=fail" if self.on_down == "fail" else "")

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read a URL such as `shards://user?one=memory/one.db&two=postgresql://host/two`.

        Raises:
            ValueError: it is not such a URL; no password is in the message.
        """
        by, separator, named = url.removeprefix(SCHEME).partition("?")
        pairs = parse_qsl(named, keep_blank_values=True)
        if not url.startswith(SCHEME) or not separator or len(dict(pairs)) < len(pairs):
            raise ValueError("shards are named as in shards://user?one=memory/one.db&two=postgresql://host/two")
        given = dict(pairs)
        options = {_OPTION: given.pop(_OPTION)} if _OPTION in given else {}
        try:
            return cls.model_validate({"shards": given, "by": by, **options})
        except ValidationError as error:
            raise ValueError(_reasons(error)) from None

    def relocated(self, locate: Callable[[str], str]) -> Self:
        """Return the block with another path or URL for each shard."""
        return self.model_copy(update={"shards": {name: locate(place) for name, place in self.shards.items()}})


def is_sharded(location: str | None) -> bool:
    """Whether a location is a URL of shards."""
    return location is not None and location.startswith(SCHEME)


def below(base: Path, url: str) -> str:
    """Return a URL of shards whose relative paths start at a folder."""

    def locate(place: str) -> str:
        return place if "://" in place else str(base / expanded(place))

    return ShardsConfig.parse(url).relocated(locate).url()


def name_of(location: str) -> str:
    """Return the name of a shard that has none: that of its file, or its host and database."""
    if "://" not in location:
        name = PurePath(location).stem
    else:
        parts = urlsplit(location)
        store = dict(parse_qsl(parts.query)).get("store", "")
        host = parts.netloc.rpartition("@")[2]
        name = "-".join(part for part in (host, parts.path.strip("/").removesuffix(".db"), store) if part)
    return re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-._")[:63] or "shard"


def _reasons(error: ValidationError) -> str:
    errors = error.errors(include_url=False)
    keys = list(ShardsConfig.model_fields)
    unknown = [str(each["loc"][0]) for each in errors if each["type"] == "extra_forbidden"]
    meant = {closest(key, keys) for key in unknown}
    reasons = [f"unknown key {key!r}{did_you_mean(key, keys)} Possible keys: {choices(keys)}" for key in unknown]
    for each in errors:
        where = f"`{'.'.join(map(str, each['loc']))}`"
        if each["type"] == "missing" and each["loc"][0] not in meant:
            reasons.append(f"{where} is required: databases by name, or a list of them")
        elif each["type"] not in ("missing", "extra_forbidden"):
            reasons.append(f"{where}: {_said(each)}" if each["loc"] else _said(each))
    return without_credentials("; ".join(reasons))


def _said(error: ErrorDetails) -> str:
    value, possible = error["input"], possible_values(error)
    if error["type"] == "value_error":
        return expectation([error])
    is_list = error["loc"] == ("shards",) and error["type"] == "dict_type"
    expected = "expected a list of databases, or a mapping of names to them" if is_list else expectation([error])
    return f"{expected}, found {found(value)}{did_you_mean(value, possible).removesuffix('.')}"


def _as_url(value: object) -> object:
    if not isinstance(value, Mapping):
        if isinstance(value, str) and value.startswith(SCHEME):
            _parsed(lambda: ShardsConfig.parse(value))
        return value
    return _parsed(lambda: ShardsConfig.model_validate(dict(value))).url()


def _parsed(parse: Callable[[], ShardsConfig]) -> ShardsConfig:
    try:
        return parse()
    except ValidationError as error:
        raise PydanticCustomError("shards", "{reasons}", {"reasons": _reasons(error)}) from error
    except ValueError as error:
        raise PydanticCustomError("shards", "{reasons}", {"reasons": str(error)}) from error


class _Schema:
    """The JSON Schema of a path, a URL, or the block, as its model has it."""

    def __get_pydantic_json_schema__(self, _core: Any, _handler: Any) -> dict[str, Any]:  # noqa: ANN401 - pydantic's
        block = ShardsConfig.model_json_schema()
        properties = block["properties"]
        named = {key: properties["shards"].pop(key) for key in ("additionalProperties", "type")}
        listed = {"type": "array", "items": {"type": "string"}}
        properties["shards"]["anyOf"] = [named, {**listed, "minItems": 1, "maxItems": MOST_SHARDS}]
        return {"anyOf": [{"type": "string"}, block]}


def _one_database(value: object) -> object:
    if isinstance(value, Mapping) or (isinstance(value, str) and is_sharded(value)):
        raise PydanticCustomError(
            "shards", "a store of this type keeps more than items, which needs one database: give a path or one URL"
        )
    return value


OneDatabase: TypeAlias = Annotated[str, BeforeValidator(_one_database, json_schema_input_type=str), KNOWN_HOME]
"""A path or a URL of a store that cannot be spread over shards."""
MemoryPath: TypeAlias = Annotated[str, BeforeValidator(_as_url), KNOWN_HOME, _Schema()]
"""A path, a URL, or a block of shards, which becomes a URL."""
