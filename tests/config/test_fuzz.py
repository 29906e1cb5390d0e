"""Whatever is read, the outcome is a workflow or a `ConfigError`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devmem.config import Workflow, load_workflow, parse_workflow
from devmem.errors import ConfigError
from tests.generated import examples

from .fakes import DEVALL, OWN, FakeTypes

ENVIRON = {"API_KEY": "sk-not-to-be-seen", "K": "5", "EMPTY": ""}
SAMPLES = [OWN, DEVALL]

EXAMPLES = examples(40)
many = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

tokens = st.sampled_from(
    [
        *"\t\n :-[]{}&*!|>'\"%@`,?#~<=0$\x00\ufeff\ud800",
        "<<: ",
        "&a ",
        "*a",
        "!!int ",
        "${K}",
        "${X:-",
        "- ",
        "---\n",
        "null",
    ]
)
keys = st.sampled_from(
    "memory memories nodes edges graph vars plugins version memory_options name type config id from to top_k read "
    "write retrieve_stage write_stage similarity_threshold provider model role params thinking plan critique "
    "memory_path embedding api_key file_sources path max_items weights tags token_budget".split()
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.dates(),
    st.text(max_size=8),
    keys,
    st.sampled_from(
        ["agent", "notes", "files", "cloud", "broken", "gen", "a", "${K}", "${X}", "${A}", "x${K:-1}", "$${K}"]
    ),
)
data = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(keys | st.text(max_size=3) | scalars, inner, max_size=6)
    ),
    max_leaves=30,
)


def _outcome(text: str) -> Workflow | ConfigError:
    outcome: Workflow | ConfigError
    try:
        outcome = parse_workflow(text, FakeTypes(), origin="w.yaml", base_dir=Path("/nonexistent"), environ=ENVIRON)
    except ConfigError as error:
        outcome = error
    if isinstance(outcome, ConfigError):
        assert all(problem.message for problem in outcome.problems)
    assert "sk-not-to-be-seen" not in f"{outcome} {outcome!r}"
    return outcome


@many
@given(st.sampled_from(SAMPLES), data, st.data())
def test_values_exchanged(text: str, value: object, draw: st.DataObject) -> None:
    document = yaml.safe_load(text)
    holder: Any = document
    while True:
        steps = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        step = draw.draw(st.sampled_from(steps))
        inner = holder[step]
        if not isinstance(inner, (dict, list)) or not inner or draw.draw(st.booleans()):
            break
        holder = inner
    holder[step] = value
    _outcome(yaml.safe_dump(document, allow_unicode=True))


@many
@given(st.dictionaries(keys, data, max_size=6), st.booleans())
def test_any_data(document: dict[str, Any], in_graph: bool) -> None:
    _outcome(yaml.safe_dump({"graph": document} if in_graph else document, allow_unicode=True))


@many
@given(st.text() | st.lists(tokens | keys, max_size=40).map("".join))
def test_any_text(text: str) -> None:
    _outcome(text)


@settings(many, max_examples=EXAMPLES * 3 // 8)
@given(st.binary() | st.text().map(lambda text: text.encode("utf-16", "surrogatepass")))
def test_any_bytes(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "w.yaml"
        file.write_bytes(content)
        try:
            load_workflow(file, FakeTypes(), environ=ENVIRON)
        except ConfigError as error:
            assert error.problems  # noqa: PT017 - either outcome is right


@pytest.mark.parametrize("text", SAMPLES)
def test_the_samples_are_valid(text: str) -> None:
    assert isinstance(_outcome(text), Workflow)
