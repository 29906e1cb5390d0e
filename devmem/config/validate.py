"""Plain data to a configuration model; pydantic's findings become problems that people can act on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, TypeVar, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from devmem.config.base import Annotation, ConfigModel, all_keys, field_at, mentions
from devmem.config.document import DocumentPath, Report, holds
from devmem.config.findings import Rule, choices, did_you_mean, expectation, found, possible_values, quoted
from devmem.config.placeholders import Placeholders, has_placeholder, names_only
from devmem.config.workflow import unset_message

_WORDS: Final = {"key", "apikey", "token", "password", "passwd", "passphrase", "secret", "credential", "credentials"}
_ABOUT_A_KEY: Final = {"column", "columns", "field", "file", "id", "llm", "name", "names", "path", "prefix"}
"""Words after which a name such as `key_names` promises something about a key, and not the key."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SHORTEST_MASKED: Final = 3


def is_secret_name(name: object) -> bool:
    """Whether a key's name promises a secret: `api_key`, `accessToken`, `password`; `key_file` does not."""
    if not isinstance(name, str):
        return False
    words = [word.lower() for word in _WORD.findall(name[:200])]
    return any(
        word in _WORDS and not (word == "key" and following in _ABOUT_A_KEY)
        for word, following in pairwise([*words, ""])
    )


def is_secret(path: DocumentPath, annotation: Annotation = None) -> bool:
    """Whether the value at a path may not be shown, by its key, a key around it, or its field's type."""
    return mentions(annotation, SecretStr) or any(is_secret_name(step) for step in path)


def _is_number_field(model: type[BaseModel], path: DocumentPath, annotation: Annotation) -> bool:
    """Whether a field takes numbers and flags alone, as `token_budget` does: its name promises no secret."""
    types = get_args(annotation) if get_origin(annotation) is not None else (annotation,)
    return bool(path) and path[-1] in all_keys(field_at(model, path[:-1])[0]) and set(types) <= _NUMBERS


_NUMBERS: Final = {int, float, bool, type(None)}


def masked(message: str, secrets: Iterator[str]) -> str:
    """Replace every secret that a message repeats."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_MASKED and secret in message:
            message = message.replace(secret, "***")
    return message


def secret_texts(value: object, *, secret: bool, models: tuple[type[BaseModel], ...] = ()) -> Iterator[str]:
    """Yield the texts in a value that stand in a secret place; `secret` says whether the whole value does."""
    if isinstance(value, dict):
        for key, entry in value.items():
            fields = [model.model_fields[key].annotation for model in models if key in model.model_fields]
            hidden = secret or is_secret_name(key) or any(mentions(one, SecretStr) for one in fields)
            yield from secret_texts(entry, secret=hidden)
    elif isinstance(value, list):
        for element in value:
            yield from secret_texts(element, secret=secret)
    elif secret and value is not None:
        yield str(value)


Model = TypeVar("Model", bound=ConfigModel)


class Validator:
    """Validates parts of one document."""

    def __init__(self, report: Report, placeholders: Placeholders) -> None:
        self._report, self._placeholders = report, placeholders

    def validate(
        self, model: type[Model], data: object, path: DocumentPath, *, elsewhere: Callable[[object], str] | None = None
    ) -> Model | None:
        """Return the model made of `data`, which stands at `path`; None after noting what is wrong with it.

        `elsewhere` returns a remark on a key at the top of `data` that the model does not have, or empty text.
        """
        try:
            return model.model_validate(data, context=self._report.place(path))
        except ValidationError as error:
            findings = error.errors(include_url=False)
        except Exception as error:  # noqa: BLE001 - a store type's validators are a stranger's code
            message = masked(str(error), secret_texts(data, secret=False, models=(model,)))
            self._report.error(path, f"{model.__name__} could not check this: {type(error).__name__}: {message}")
            return None
        self._note(model, data, path, findings, elsewhere)
        return None

    def _note(
        self,
        model: type[ConfigModel],
        data: object,
        path: DocumentPath,
        findings: list[ErrorDetails],
        elsewhere: Callable[[object], str] | None,
    ) -> None:
        by_place: dict[DocumentPath, list[ErrorDetails]] = {}
        for finding in findings:
            if _is_echo(finding):
                continue
            by_place.setdefault(_cleaned(finding, data), []).append(finding)
        for inner, here in by_place.items():
            if self._report.is_full:
                return
            remark = elsewhere(inner[0]) if elsewhere and len(inner) == 1 and _rule(here[0]) is Rule.UNKNOWN_KEY else ""
            self._report.error((*path, *inner), self._message(model, path, inner, here, remark), _rule(here[0]))

    def _message(
        self,
        model: type[ConfigModel],
        path: DocumentPath,
        inner: DocumentPath,
        findings: list[ErrorDetails],
        remark: str,
    ) -> str:
        finding = findings[0]
        kind = finding["type"]
        if kind == "invalid_key" or finding["loc"][-1:] == ("[key]",):
            return f"a key must be text, found {found(finding['input'], secret=True)}; put it in quotes"
        if kind == "extra_forbidden":
            possible = all_keys(field_at(model, inner[:-1])[0])
            return f"unknown key{remark or did_you_mean(inner[-1], possible)} Possible keys: {choices(possible)}."
        if kind == "missing":
            return "this key is required"
        whole = (*path, *inner)
        missing = self._missing(whole)
        if missing:
            return f"{unset_message(missing)}; {expectation(findings)}"
        return self._wrong_value(model, inner, whole, findings)

    def _missing(self, path: DocumentPath) -> tuple[str, ...]:
        """Return the variables that the value at a path, or one around it, still waits for."""
        prefixes = (path[:length] for length in range(len(path), 0, -1))
        return next((self._placeholders.missing[one] for one in prefixes if one in self._placeholders.missing), ())

    def _wrong_value(
        self, model: type[ConfigModel], inner: DocumentPath, whole: DocumentPath, findings: list[ErrorDetails]
    ) -> str:
        models, annotation = field_at(model, inner)
        value = findings[0]["input"]
        secret = is_secret(whole[:-1] if _is_number_field(model, inner, annotation) else whole, annotation)
        written = self._report.document.nearest(whole)
        if isinstance(written, str) and has_placeholder(written):
            # A default in the placeholder may be the secret.
            shown = f"the value of {quoted(names_only(written) if secret else written)}"
            hidden = [value]
        else:
            shown = found(value, secret=secret)
            hidden = list(secret_texts(value, secret=secret, models=models))
        message = masked(expectation(findings), (str(one) for one in hidden))
        if isinstance(value, Mapping) and not message.startswith("expected"):
            # A check of several keys names them itself.
            return message
        possible = possible_values(findings[0])
        hint = did_you_mean(value, possible).rstrip(".") if possible and not secret and "value of" not in shown else ""
        return f"{message}, found {shown}{hint or _quoting_hint(findings[0], value)}"


def _rule(finding: ErrorDetails) -> Rule:
    return Rule.UNKNOWN_KEY if finding["type"] == "extra_forbidden" else Rule.INVALID_VALUE


def _is_echo(finding: ErrorDetails) -> bool:
    """Whether a list is called too short only because its elements, which have their own problems, do not count."""
    value, context = finding["input"], finding.get("ctx", {})
    return finding["type"] == "too_short" and isinstance(value, list) and len(value) >= context["min_length"]


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


def _quoting_hint(finding: ErrorDetails, value: object) -> str:
    is_bare = value is not None and not isinstance(value, (str, list, dict))
    return "; put it in quotes if it is meant as text" if finding["type"] == "string_type" and is_bare else ""
