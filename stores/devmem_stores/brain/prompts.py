"""Prompts for a language model, in each language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from devmem.llm import SUMMARY_PROMPTS, Language, LanguageChoice, prompt_language


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """Prompts of one language; the text that they are about is a message of its own."""

    data: str
    """Part of every prompt: the text is not an instruction."""
    title: str
    """With the placeholder `words`."""
    related: str
    """Asks for TRUE or FALSE."""
    rewrite: str
    first: str
    second: str
    context: str
    sentence: str


PROMPTS: Final[dict[Language, Prompts]] = {
    "en": Prompts(
        data=SUMMARY_PROMPTS["en"].data,
        title="Give the text a title in English of fewer than {words} words. Answer with the title alone.",
        related=(
            "Decide whether the second text is about what the first text is about. Answer with TRUE or FALSE alone."
        ),
        rewrite=(
            "Rewrite the sentence so that it is understood without the context: put what pronouns and omissions stand "
            "for in their place. Add nothing that neither says. Answer with the rewritten sentence alone, in its "
            "language."
        ),
        first="First text",
        second="Second text",
        context="Context",
        sentence="Sentence",
    ),
    "zh": Prompts(
        data=SUMMARY_PROMPTS["zh"].data,
        title="请用中文为这段文本拟一个少于{words}字的标题。只输出标题。",
        related="请判断第二段文本与第一段文本谈的是否是同一件事。只输出 TRUE 或 FALSE。",
        rewrite="请改写句子,使其脱离上下文也能看懂:把代词和省略换成所指的内容,不要添加两者都没有的信息。只输出改写后的句子,使用原句的语言。",
        first="第一段文本",
        second="第二段文本",
        context="上下文",
        sentence="句子",
    ),
}


def prompts_for(text: str, language: LanguageChoice) -> Prompts:
    """Return the prompts in the configured language, or else in that of the text."""
    return PROMPTS[prompt_language(text, language)]
