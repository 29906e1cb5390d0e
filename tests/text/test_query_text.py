"""Messages and the part of them that asks something."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devmem.text.analysis import query_terms
from devmem.text.query_text import REST_SHARE, QueryText
from tests.generated import examples


@pytest.mark.parametrize(
    ("message", "asked"),
    [
        ("We were on the lake for hours! When does my sister arrive?", "When does my sister arrive?"),
        ("When does my sister arrive? We were on the lake.", "When does my sister arrive?"),
        ("Isn't it lovely? By the way, what does Tom drink?", "what does Tom drink?"),
        ("I am so tired of this, btw what does Tom drink?", "what does Tom drink?"),
        ("I saw Dr. Klein again. Has my sister seen the garden?", "Has my sister seen the garden?"),
        ("How are you? I slept badly. When is the rocket's launch?", "How are you? When is the rocket's launch?"),
        ("Where does Tom work? By the way, I met Ann.", "Where does Tom work?"),
        ("I slept badly. By the way, when is the launch?", "when is the launch?"),
        ("What a day. Remind me of the wifi password.", "Remind me of the wifi password."),
        ("Where did Ann say that she lives? Answer in one word.", "Where did Ann say that she lives?"),
        ("What was it that Tom drank? I forgot.", "What was it that Tom drank?"),
        ("今天天气真好。我表哥的生日是什么时候？", "我表哥的生日是什么时候？"),
        ("昨天去了公园，花都开了，对了，我表哥的生日是什么时候？", "我表哥的生日是什么时候？"),
    ],
)
def test_small_talk_is_told_from_the_question(message: str, asked: str) -> None:
    found = QueryText.of(message)
    assert found.asked == asked
    weights = found.term_weights()
    assert {weights[term] for term in query_terms(asked) if len(term) > 1} == {1.0}
    assert {weights[term] for term in set(query_terms(found.rest)) - set(query_terms(asked)) if len(term) > 1} == {
        REST_SHARE
    }


@pytest.mark.parametrize(
    "message",
    [
        "When is the launch?",
        "We met at the lake. Ann was late.",
        "Ann moved to Paris. Where did she live before?",
        "My flight is LH123 to Oslo. When do I land?",
        "我的航班是去奥斯陆的。几点起飞？",
        "In May we ate at the harbour. Which restaurant was this?",
        "The launch is near. What does it need?",
        "Ann asks Richard about kids. How does Richard answer?",
        "I want to make the app safer. What steps would you suggest?",
        "I have a free week. How should I spend my time?",
        "The plan has three steps: a schema, an API, tests. Would you like me to write the code?",
        "Ich war am See. Was hat er gesagt?",
        "Estuve en el lago. ¿Quién ha llamado?",
        "昨日は湖に行った。それは誰の船でしたか？",
        "我姐姐住在北京。她的生日是哪天？",
        "黄文慧遇到了麻烦。请问黄文慧遇到了什么事情？",
        "",
        "?",
        "Wow. ??",
    ],
)
def test_a_message_counts_as_a_whole(message: str) -> None:
    """Where nothing asks, or the question needs the rest."""
    assert QueryText.of(message) == QueryText(message)


def test_a_question_in_a_long_text_is_not_what_it_asks() -> None:
    """Such as an article, a log, or the answer of another agent."""
    article = "The harbour was built early.\n" * 40
    assert QueryText.of(f"{article}Why do big ships sink?").rest == ""
    assert QueryText.of(f"{article[:290]}Why do big ships sink?").asked == "Why do big ships sink?"


def test_without_focus_every_word_counts() -> None:
    message = "We were on the lake. When does my sister arrive?"
    assert QueryText.of(message, focus=False).term_weights() == dict.fromkeys(query_terms(message), 1.0)


_PIECES = st.sampled_from(
    [
        "Is it?",
        "By the way, ",
        "When is the launch? ",
        "Dr. ",
        "我们去了公园。",
        "对了，谁来？",
        "Nice! ",
        "\n",
        "¿Qué? ",
    ]
)


@given(st.lists(_PIECES | st.text(string.printable, max_size=8), max_size=8).map("".join))
@settings(max_examples=examples(300))
def test_no_word_is_lost(message: str) -> None:
    found = QueryText.of(message)
    assert sorted("".join((found.asked + found.rest).split())) == sorted("".join(message.split()))
    assert found.asked.strip() or not message.strip()
    assert set(found.term_weights()) >= set(query_terms(message)) or not found.rest
