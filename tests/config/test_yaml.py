"""Which texts are taken for a document, and that hostile ones are refused with a reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from devmem.config.compose import compose
from devmem.errors import ConfigError

AGREED = """\
plain: text
quoted: ["1", 'two', "th\\u00e9\\n", '']
numbers: [1, -1, +1, 0, 0x1F, 0o7, 017, 0b11, 1_000, 1:30, 1.5, -1.5, .5, 1e3, 1.0e+3, .inf, -.inf, 190:20:30.15]
flags: [true, False, yes, NO, on, off, y, n]
nothing: [null, ~, Null, ]
dates: [2024-01-31, 2024-01-31 10:20:30, 2024-01-31T10:20:30Z, 2024-01-31T10:20:30.5+02:00]
tagged: [!!str 1, !!int "2", !!float "3", !!null x, !!bool "yes", !!timestamp "2024-01-31", ! 5]
block: |
  one
    two
folded: >-
  one
  two
base: &base {a: 1, b: &inner [x, y]}
other: &other {b: 2, c: 3}
merged: {<<: *base, c: 4}
merged two: {a: 0, <<: [*base, *other], d: 5}
alias: [*inner, *inner]
nested: {? key : {deep: [{er: [[]]}]}}
10: number
true: flag
2024-01-31: date
~: nothing
"<<": quoted
"""


def test_values_are_those_of_safe_load() -> None:
    assert compose(AGREED).data == yaml.safe_load(AGREED)
    assert list(compose(AGREED).data) == list(yaml.safe_load(AGREED))


def test_of_two_merge_keys_the_later_one_decides() -> None:
    """As in PyYAML up to 6.0.3; from 6.0.4 on the first does, and a workflow must not depend on that."""
    text = "a: &a {k: 1, l: 1}\nb: &b {k: 2}\nc:\n  <<: *a\n  z: 3\n  <<: *b\n"
    assert compose(text).data["c"] == {"k": 2, "l": 1, "z": 3}


def test_lines() -> None:
    document = compose(
        "a: 1\n\nb:\n  c:\n    - x\n    - {d: 1,\n       e: 2}\nf: &f\n  g: 1\nh: *f\ni:\n  <<: *f\n  j: 1\n"
    )
    lines = {
        (): 1,
        ("a",): 1,
        ("b",): 3,
        ("b", "c"): 4,
        ("b", "c", 0): 5,
        ("b", "c", 1): 6,
        ("b", "c", 1, "d"): 6,
        ("b", "c", 1, "e"): 7,
        ("h", "g"): 9,
        ("i", "g"): 9,
        ("i", "j"): 13,
        ("i", "missing"): 11,
        ("b", "c", 9, "z"): 4,
        ("a", "too", "deep"): 1,
    }
    assert {path: document.nearest(path)[1] for path in lines} == lines


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the document is empty"),
        ("~", "the document is empty"),
        ("text", "this document is not a mapping"),
        ("- a", "this document is not a mapping"),
        ("a: 1\n---\nb: 2", "2: a second document begins here"),
        (
            "a: [1\nb: 2",
            "2: this is not valid YAML: did not find expected ',' or ']', while parsing a flow sequence on line 1",
        ),
        ("a:b\nc: d", "1: this is not valid YAML: write the key as `a: `, with a space"),
        ("memory\uff1a\n  - name: a", "1: this is not valid YAML: write the key as `memory: `, with a space"),
        ("a: b: c", "1: this is not valid YAML: mapping values are not allowed"),
        ("a:\n\tb: 1", "2: a tab stands where YAML wants spaces"),
        ("a:\n  - b\n\t- c", "3: a tab stands where YAML wants spaces"),
        ("a: @b", "1: a text cannot begin with '@' unless it is quoted"),
        ("a: {b: ${C}}", '1: this is not valid YAML; inside { } and [ ] a placeholder must be quoted: "${NAME}"'),
        ("a: 1\nb: 2\na: 3", "3: the key 'a' stands here and on line 1; keep one of them"),
        ("? [a]\n: b", "a list or mapping cannot be a key"),
        ("{a: 1}: b", "a list or mapping cannot be a key"),
        ("a: &a [*a]", "1: the alias 'a' contains itself"),
        ("a: *b", "1: this alias names no anchor above it"),
        ("<<: 3", "1: `<<` takes a mapping or a list of mappings"),
        ("a: !!python/object:os.system x", "1: this tag is not supported"),
        ("a: !mine b", "1: this tag is not supported"),
        ("a: 2024-13-45", "1: this is not a valid date; quote it if it is meant as text"),
        ("a: !!int x", "1: this is not a valid number"),
        ("a: " + "9" * 301, "1: this is not a valid number; quote it"),
        ("a: 1" + ":1" * 1000, "1: this is not a valid number"),
        ("a: \x01", "1: the character U+0001 may not stand"),
        ("a: \ud800", "1: the character U+D800 may not stand"),
        ('a: "\\ud800"', "1: "),
        ('a: "\\0"', "1: a text cannot hold the character NUL"),
        ("%YAML 9.9\n---\na: 1", "this is not valid YAML: found incompatible YAML document"),
        ("a: " + "x" * 1024 * 1024, "the workflow is larger than 1,048,576 characters"),
    ],
)
def test_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose(text, origin="w.yaml")
    assert problem in str(caught.value).replace("w.yaml:", "").strip()


def test_every_repeated_key_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        compose("a: 1\nb: {c: 1, c: 2}\na: 2\n")
    assert [problem.line for problem in caught.value.problems] == [2, 3]


def _laughs(levels: int, width: int) -> str:
    links = (f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]" for level in range(1, levels))
    return "\n".join([f"a0: &a0 [{', '.join(['lol'] * width)}]", *links])


@pytest.mark.parametrize(
    "text",
    [
        _laughs(10, 9),
        _laughs(40, 2),
        "a: &a {" + ", ".join(f"k{index}: 1" for index in range(20_000)) + "}\nb:\n" + "  - {<<: *a}\n" * 20_000,
        "a: &a {" + ", ".join(f"k{index}: 1" for index in range(20_000)) + "}\nb: {<<: [" + "*a, " * 20_000 + "]}",
        "- a\n" * 200_000,
        "[" + "a," * 500_000 + "]",
        "".join(f"k{index}: 1\n" for index in range(60_000)),
    ],
    ids=["laughs", "doubling", "merges", "one merge", "items", "flow items", "keys"],
)
def test_too_many_values(text: str) -> None:
    with pytest.raises(ConfigError, match=r"more than 50,000 values"):
        compose(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 100_000,
        "? " * 100_000,
        "".join(" " * level + "a:\n" for level in range(1000)),
        "\n".join(["a0: &a0 [x]", *(f"a{level}: &a{level} [*a{level - 1}]" for level in range(1, 100))]),
    ],
    ids=["flow lists", "flow mappings", "lists", "keys", "mappings", "aliases"],
)
def test_too_deep(text: str) -> None:
    with pytest.raises(ConfigError, match=r"deeper than 64 levels|cannot be a key"):
        compose(text)


@pytest.mark.parametrize("text", ["a: " + "x" * 1_000_000, 'a: "' + "\\n" * 500_000 + '"', "a:\n" + "\n" * 1_000_000])
def test_long_texts_are_fine(text: str) -> None:
    assert compose(text).data == yaml.load(text, Loader=yaml.CSafeLoader)


def test_reading_does_not_need_the_fast_parser(tmp_path: Path) -> None:
    """PyYAML may be installed without its C parser."""
    program = "\n".join(
        [
            "import sys, yaml",
            "del yaml.CSafeLoader",
            "from devmem.config.compose import compose",
            "from devmem.errors import ConfigError",
            "assert compose(sys.stdin.read()).data == {'a': [1, {'b': None}]}",
            "for text in ('a: [', 'a: \"\\\\ud800\"', '[' * 10_000, 'a:\\n\\tb: 1'):",
            "    try: compose(text)",
            "    except ConfigError as error: print(error)",
        ]
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        input="a: [1, {b: }]",
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split(": ")[1][:20] for line in done.stdout.splitlines()] == [
        "this is not valid YA",
        "a text cannot hold h",
        "lists and mappings n",
        "a tab stands where Y",
    ]
