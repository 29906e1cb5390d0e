"""Plain data to a configuration model; pydantic's findings become problems that people can act on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeVar

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from devmem.config.base import (
    UNKNOWN_NAME,
    ConfigModel,
    Declared,
    StoreTypes,
    all_keys,
    field_at,
    keys_of,
    mentions,
    models_in,
)
from devmem.config.document import DocumentPath, Report, holds
from devmem.config.findings import Rule, choices, closest, did_you_mean, found, quoted
from devmem.config.placeholders import Placeholders, has_placeholder, names_only, unset_message
from devmem.config.store import StoreDeclaration

NEAR_MISS: Final = 0.75
"""Likeness from which a key that nothing reads is taken for a misspelt one."""
Model = TypeVar("Model", bound=ConfigModel)


class Validator:
    """Validates parts of one document."""

    def __init__(self, report: Report, placeholders: Placeholders, types: StoreTypes) -> None:
        self._report, self._placeholders, self._types = report, placeholders, types

    def validate(self, model: type[Model], data: object, path: DocumentPath) -> Model | None:
        """Return the model made of `data`, which stands at `path`; None after noting what is wrong with it."""
        try:
            return model.model_validate(data, context=Declared(place=self._report.place(path), types=self._types))
        except ValidationError as error:
            findings = error.errors(include_url=False)
        except Exception as error:  # noqa: BLE001 - a store type's validators are a stranger's code
            kind, inner = self._routed(model, data, ("config",)) if model is StoreDeclaration else (model, ())
            where = path if inner else (*path, *(() if kind is model else ("config",)))
            message = _masked(str(error), _secret_texts(data, secret=False, models=(kind,)))
            self._report.error(where, f"{kind.__name__} could not check this: {type(error).__name__}: {message}")
            return None
        by_place: dict[DocumentPath, list[ErrorDetails]] = {}
        for finding in findings:
            value, least = finding["input"], finding.get("ctx", {}).get("min_length", 0)
            if finding["type"] == "too_short" and isinstance(value, list) and len(value) >= least:
                continue  # the elements, which have their own problems, do not count
            by_place.setdefault(_cleaned(finding, data), []).append(finding)
        for place, here in by_place.items():
            message, rule = self._message(*self._routed(model, data, place), (*path, *place), here)
            self._report.error((*path, *place), message, rule)
        return None

    def look_over(self, model: type[ConfigModel], written: object, path: DocumentPath) -> None:
        """Warn about keys that nothing reads, and about those of other systems that devmem does not carry out.

        Only a model that ignores what it does not know is looked over, and those of its blocks.
        """
        if not isinstance(written, Mapping) or model.model_config.get("extra") != "ignore":
            return
        keys = all_keys([model])
        for key, value in written.items():
            message = model.foreign.get(key)
            if message and value:
                self._report.warn((*path, key), message, Rule.NOT_SUPPORTED)
            elif message is None and key not in keys:
                meant = closest(key, keys, cutoff=NEAR_MISS)
                if meant is not None and meant not in written:
                    self._report.warn((*path, key), f"this key is not read; did you mean {meant!r}?", Rule.UNKNOWN_KEY)
        for name, field in model.model_fields.items():
            for key in keys_of(name, field):
                for inner in models_in(field.annotation):
                    if issubclass(inner, ConfigModel):
                        self.look_over(inner, written.get(key), (*path, key))

    def _routed(
        self, model: type[ConfigModel], data: object, inner: DocumentPath
    ) -> tuple[type[ConfigModel], DocumentPath]:
        """Return the model to which a path leads, and the rest of it: a store's settings have that of its type."""
        kind = data.get("type") if isinstance(data, Mapping) else None
        if model is StoreDeclaration and inner[:1] == ("config",) and isinstance(kind, str):
            return self._types.config_model(kind), inner[1:]
        return model, inner

    def _message(
        self, model: type[ConfigModel], inner: DocumentPath, whole: DocumentPath, findings: Sequence[ErrorDetails]
    ) -> tuple[str, Rule]:
        """Return what is wrong with the value at a path, which is `inner` below the model."""
        finding = findings[0]
        kind, context, value = finding["type"], finding.get("ctx", {}), finding["input"]
        written = self._report.written(whole)
        if kind == "invalid_key" or finding["loc"][-1:] == ("[key]",):
            key = found(value, secret=True)
            return f"a key must be text, found {key}; put it in quotes", Rule.INVALID_VALUE
        if kind == "extra_forbidden":
            possible = all_keys(field_at(model, inner[:-1])[0])
            hint = did_you_mean(inner[-1], possible)
            return f"unknown key{hint} Possible keys: {choices(possible)}.", Rule.UNKNOWN_KEY
        if kind == "missing":
            return "this key is required", Rule.INVALID_VALUE
        if kind == "broken_plugin":
            return str(context["error"]), Rule.INVALID_VALUE
        prefixes = [whole[:length] for length in range(len(whole), 0, -1)]
        missing = next((names for one in prefixes if (names := self._placeholders.missing.get(one))), ())
        if kind == UNKNOWN_NAME:
            if missing:
                return unset_message(missing), Rule.UNSET_VARIABLE
            what, possible = context["what"], context["possible"]
            # The value of a placeholder may be a secret that stands in the wrong place.
            shown = (
                f"in {quoted(written)}." if has_placeholder(written) else quoted(value) + did_you_mean(value, possible)
            )
            others = "Others need their package installed, or their module under `plugins`."
            return f"unknown {what} {shown} Possible: {choices(possible)}. {others}", Rule.UNKNOWN_NAME
        if missing:
            return f"{unset_message(missing)}; {_expectation(findings)}", Rule.INVALID_VALUE
        return self._wrong_value(model, inner, whole, findings), Rule.INVALID_VALUE

    def _wrong_value(
        self, model: type[ConfigModel], inner: DocumentPath, whole: DocumentPath, findings: Sequence[ErrorDetails]
    ) -> str:
        models, annotation = field_at(model, inner)
        value, written = findings[0]["input"], self._report.written(whole)
        secret = mentions(annotation, SecretStr) or any(map(_is_secret_name, whole))
        is_expanded = has_placeholder(written)
        if is_expanded:
            # A default in the placeholder may be the secret.
            shown = f"the value of {quoted(names_only(written) if secret else written)}"
        else:
            shown = found(value, secret=secret)
        message = _masked(_expectation(findings), _secret_texts(value, secret=secret or is_expanded, models=models))
        if isinstance(value, Mapping) and not message.startswith("expected"):
            # A check of several keys names them itself.
            return message
        hint = ""
        if (possible := _possible_values(findings[0])) and not secret and not is_expanded:
            hint = did_you_mean(value, possible).rstrip(".")
        elif findings[0]["type"] == "string_type" and value is not None and not isinstance(value, (str, list, dict)):
            hint = "; put it in quotes if it is meant as text"
        return f"{message}, found {shown}{hint}"


def _cleaned(finding: ErrorDetails, data: object) -> DocumentPath:
    """Leave out the steps that pydantic adds for the branches of a union and for values that were wrapped in a list."""
    path: list[Any] = []
    value: Any = data
    for position, step in enumerate(finding["loc"]):
        if holds(value, step):
            value = value[step]
        elif finding["type"] != "missing" or position < len(finding["loc"]) - 1:
            continue
        path.append(step)
    return tuple(path)


_EXPECTED: Final = {
    "bool": "true or false",
    "flag": "true or false",
    "int": "a whole number",
    "float": "a number",
    "number": "a number",
    "finite": "a finite number",
    "string": "text",
    "path": "a path",
    "model": "a mapping",
    "dict": "a mapping",
    "mapping": "a mapping",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen": "a list",
}
"""Description of the expected value, by the first word of pydantic's name for the error."""


def _expectation(findings: Sequence[ErrorDetails]) -> str:
    """Return what pydantic's findings about one value expect there."""
    wanted = dict.fromkeys(map(_one_expectation, findings))
    return " or ".join([one if not index else one.removeprefix("expected ") for index, one in enumerate(wanted)])


def _one_expectation(finding: ErrorDetails) -> str:
    kind, context = finding["type"], finding.get("ctx", {})
    if possible := _possible_values(finding):
        return f"expected one of {choices(possible)}"
    if kind.startswith(("greater_than", "less_than")):
        bound = finding["msg"].removeprefix("Input should be ").replace("greater than or equal to", "at least")
        return f"expected a number {bound.replace('less than or equal to', 'at most')}"
    if kind == "string_too_short":
        return "expected text that is not empty"
    if kind in ("too_short", "too_long"):
        word, bound = ("at least", context["min_length"]) if kind == "too_short" else ("at most", context["max_length"])
        return f"expected {word} {bound} {'element' if bound == 1 else 'elements'}"
    word = kind.split("_", 1)[0]
    if word in _EXPECTED and kind not in ("string_too_long", "string_pattern_mismatch"):
        return f"expected {_EXPECTED[word]}"
    text = finding["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _possible_values(finding: ErrorDetails) -> list[str]:
    """Return the values that a choice offers, which pydantic gives as one quoted text."""
    if finding["type"] not in ("literal_error", "enum"):
        return []
    return [quoted.strip("'") for quoted in re.split(", | or ", str(finding.get("ctx", {})["expected"]))]


_WORDS: Final = {"key", "apikey", "token", "password", "passwd", "passphrase", "secret", "credential", "credentials"}
_ABOUT_A_KEY: Final = {"budget", "column", "columns", "field", "file", "id", "llm", "name", "names", "path", "prefix"}
"""Words after which a name such as `key_names` promises something about a key, and not the key."""
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SHORTEST_MASKED: Final = 3


def _is_secret_name(name: object) -> bool:
    """Whether a key's name promises a secret: `api_key`, `accessToken`, `password`; `key_file` does not."""
    words = [word.lower() for word in _WORD.findall(name[:200])] if isinstance(name, str) else []
    return any(word in _WORDS and following not in _ABOUT_A_KEY for word, following in pairwise([*words, ""]))


def _masked(message: str, secrets: Iterator[str]) -> str:
    for secret in secrets:
        if len(secret) >= _SHORTEST_MASKED:
            message = message.replace(secret, "***")
    return message


def _secret_texts(value: object, *, secret: bool, models: Sequence[type[BaseModel]] = ()) -> Iterator[str]:
    """Yield the texts in a value that stand in a secret place; `secret` says whether the whole value does."""
    if isinstance(value, dict):
        for key, entry in value.items():
            fields = [model.model_fields[key].annotation for model in models if key in model.model_fields]
            hidden = secret or _is_secret_name(key) or any(mentions(one, SecretStr) for one in fields)
            yield from _secret_texts(entry, secret=hidden, models=models if key == "config" else ())
    elif isinstance(value, list):
        for element in value:
            yield from _secret_texts(element, secret=secret)
    elif secret and value is not None:
        yield str(value)
