"""Whether anything that a search found has to do with what was said.

A prompt is better off without memories than with those that only happen to be the nearest: "ok", "go on" and "How do
I exit vim?" have a nearest item in any store. What tells them from messages that memory helps with is the best cosine
in the store (docs/retrieval.md has the figures); scores do not, as the words of a short message are found in any talk.
"""

from __future__ import annotations

import re
from typing import Final

from devmem.model.results import Hit, SearchReport
from devmem.text.analysis import STOP_WORDS, query_terms, terms
from devmem.text.patterns import lazy_pattern
from devmem.text.query_text import asks_something

_LEAST_SCORE: Final = 0.6
"""Best score from which a question is about something stored although no item is near to it."""
_LOW_SCORE: Final = 0.4
_DOUBT: Final = 0.09
"""Best score below which a question has to be nearer to an item, and by how much: the words of a task of the same field
("What causes the northern lights?" where whales are talked of) are found by chance or not at all."""
_LEAST_OF_BEST: Final = 0.65
"""Share of the best score from which a hit answers a question although it is not near to it."""
_LEAST_SHARE: Final = 0.3
_LEAST_WORDS: Final = 3
"""Share of a message's content words, and number of those of a long one, that a hit has at least without vectors."""
_LONGEST: Final = 80
"""Characters of a message that may say nothing."""

_GREETING: Final = (
    r"hi(?:ya)?|hello|hey|howdy|greetings|yo|welcome(?:\s+back)?|good\s*(?:morning|afternoon|evening|night|day)"
    r"|(?:good\s*)?bye(?:\s*bye)?|farewell|cheers|take\s+care|sleep\s+well|sweet\s+dreams|happy\s+(?:birthday|new\s+year)"
    r"|(?:see|talk\s+to|speak\s+to|catch)\s+(?:you|ya|u)(?:\s+(?:soon|later|tomorrow|around|then|next\s+time))?|later|cu"
    r"|(?:have\s+)?an?\s+(?:nice|good|great|lovely)\s+(?:day|night|evening|weekend|one|time|trip)|have\s+fun|you\s+too"
    r"|how(?:['’]s|\s+is|\s+are|\s+have)\s+(?:it|you|things|everything|life|your\s+day)(?:\s+(?:going|doing|been|today))*"
    r"|(?:what['’]?s|what\s+is|sup|wass?)\s*up|nice\s+to\s+(?:meet|see|hear\s+from)\s+you|long\s+time\s+no\s+see"
    r"|(?:are\s+)?you\s+(?:still\s+)?(?:there|here|ready)|anybody\s+there|i(?:['’]m|\s+am)\s+(?:back|here|done|ready|good|fine)"
)
_ANSWER: Final = (
    r"o?k+(?:ay)?(?:ie|ey)?|okey\s*dokey|alright|all\s+right|(?:that['’]?s\s+)?(?:all\s+)?(?:right|correct|true)|ye(?:s|ah|p|ss+)"
    r"|yup|ya|aye|no(?:pe|oo+)?|nah|sure(?:\s+thing)?|of\s+course|certainly|definitely|absolutely|exactly|indeed|totally"
    r"|agreed|i\s+agree|deal|done|fine|maybe|perhaps|probably|i\s+guess(?:\s+so)?|i\s+think\s+so|i\s+don['’]?t\s+know|idk"
    r"|not\s+(?:sure|really|yet|now)|whatever|anyway|either\s+way|up\s+to\s+you|your\s+choice|fair\s+enough|same\s+here|me\s+too"
    r"|got\s+it|gotcha|i\s+(?:got\s+it|see|know|understand|get\s+it)|understood|noted|roger|copy\s+that|will\s+do"
    r"|(?:that|it)\s+(?:makes\s+sense|helps|works|worked|sounds\s+\w+)|makes\s+sense|sounds\s+(?:good|great|fine|fun|nice)"
    r"|works\s+for\s+me|(?:no|not\s+a)\s+(?:problem|worries|worry|prob)|np|don['’]?t\s+worry|never\s*mind|nvm|forget\s+it"
    r"|(?:that['’]?s|that\s+is|it['’]?s|this\s+is)\s+(?:all|it|fine|ok(?:ay)?|good|great|nice|cool|perfect|awesome|amazing|funny"
    r"|hilarious|wonderful|lovely|enough|fair|right|better|helpful|(?:exactly\s+)?what\s+i\s+(?:needed|wanted|meant))"
)
_FEELING: Final = (
    r"thanks?(?:\s+(?:you|u))?|thx|ty(?:vm)?|tysm|much\s+(?:obliged|appreciated)|(?:i\s+)?(?:really\s+)?appreciate(?:d)?(?:\s+it)?"
    r"|you(?:['’]re|\s+are|r)?\s+(?:welcome|the\s+best|(?:so\s+|very\s+)?(?:helpful|kind|right|great|awesome|amazing|funny))"
    r"|(?:good|great|nice|awesome|amazing|excellent|perfect|wonderful|fantastic|brilliant|super|cool|neat|sweet|lovely|wow|yay"
    r"|impressive|incredible|beautiful|interesting|funny|hilarious)(?:\s+(?:job|work|one|idea|answer|stuff|news))?"
    r"|well\s+done|bravo|congrat(?:s|ulations)|good\s+luck|love\s+it|i\s+(?:love|like)\s+(?:it|that|this)|glad\s+to\s+hear(?:\s+it)?"
    r"|(?:i['’]?m\s+)?(?:so\s+|very\s+)?sorry|apologies|my\s+(?:bad|mistake)|oops|pardon|excuse\s+me|oh\s+(?:no|dear|well)|ouch|ugh|damn"
    r"|h+m+|u+h+|u+m+|e+r+m?|a+h+|o+h+|e+h+|m+h*m*|aww*|huh|phew|(?:ha|he|hi|ho)(?:ha|he|hi|ho|h)+|lo+l|lmao|rofl|xd|omg|geez"
    r"|really|seriously|no\s+way|for\s+real|are\s+you\s+(?:sure|serious|kidding|joking)|you\s+sure|is\s+that\s+(?:so|true|right)"
)
_GOING_ON: Final = (
    r"(?:please\s+)?(?:go\s+(?:on|ahead)|continue|carry\s+on|keep\s+going|proceed|next|more|again|repeat(?:\s+(?:it|that))?"
    r"|once\s+more|one\s+more(?:\s+time)?|go\s+for\s+it|do\s+(?:it|that|so)|try\s+again|start|stop|wait)|so\s+what|what\s+else"
    r"|and\s+(?:then|now)|then(?:\s+what)?|so|now\s+what|tell\s+me\s+more|(?:say|explain)\s+(?:it|that)\s+again|why(?:\s+not)?|how\s+so"
    r"|what\s+do\s+you\s+(?:mean|think)|(?:can|could|would)\s+you\s+(?:please\s+)?(?:say|repeat|explain)\s+(?:it|that)(?:\s+again)?"
    r"|(?:let\s+me|i['’]ll|i\s+will)\s+(?:think|see|check|try)(?:\s+(?:about\s+)?(?:it|that))?|(?:hang|hold)\s+on|give\s+me|just"
    r"|(?:a|one|just\s+a)\s+(?:sec(?:ond)?|moment|minute|bit)|(?:brb|afk)|(?:be\s+)?right\s+back|(?:tell|give)\s+me\s+a\s+joke"
    r"|that(?:['’]?s|\s+is|\s+was|\s+will\s+be)\s+(?:all|it|everything)"
)
_AROUND: Final = (
    r"please|pls|plz|so|very|too|much|a\s+(?:lot|bit|ton|bunch)|again|now|then|there|here|today|tonight|everyone|all|guys|friend"
    r"|buddy|mate|dear|man|dude|well|and|but|just|really|for\s+(?:now|today|that|this|it|everything|(?:your|the)\s+(?:help|time|answer))"
    r"|it|that|this|you|i|indeed|of\s+course|anyways?|to\s+me|with\s+me|by\s+me"
)
_CHINESE: Final = (
    r"不好意思|不客[气氣]|不[错錯]|[对對]不起|没[有]?[事关關问問错錯][系係题題]?|沒[有]?[事關問錯][係題]?|早上好|[上中下]午好|晚[上]?[安好]"
    r"|好久不[见見]|好[梦夢]|好[极極]了|可以[的了吗嗎]?|[确確][实實]|[当當]然|真的[吗嗎]?|真[棒好不错錯有趣意思]+|[谢謝]+[你您啦了]*"
    r"|多[谢謝]|感[谢謝][你您]?|辛苦[你您]?了|[别別]客[气氣]|抱歉|打[扰擾]了|[你您]好|大家好|哈[喽囉罗]|再[见見]|回[头頭][见見聊]"
    r"|明天[见見]|下次[见見]|周末愉快|週末愉快|新年快[乐樂]|生日快[乐樂]|加油|恭喜|[厉厲][害]|完美|有意思|有道理|[赞讚]|牛"
    r"|[继繼][续續][说說]?|接[着著][说說]?|然[后後]|[还還]有|[后後][来來]|下一[个個步]|快[点點]|再[来來说說][一]?[遍次个個]?|重[复複]一[遍下]"
    r"|明白|懂|知道|了解|收到|[记記]住了|原[来來]如此|[这這][样樣]|[随隨]便|都行|都可以|算了|[为為]什[么麼]|怎[么麼][会會]?|什[么麼]意思"
    r"|稍?等[一]?[下等会會]*|[让讓]?我想想|[讲講说說][个個]?笑[话話]|就[这這][样樣些]?|先[这這][样樣]"
    r"|[好行嗯哦噢喔啊呃唔额額诶欸哎呀哟是对對不没沒的了啦哒呢吗嗎吧嘞哈呵嘿嘻嗨喂在早拜棒太很非常你您我那请請用要]"
)
_FILLER: Final = lazy_pattern(
    rf"[\W_]*(?:(?:(?:{_GREETING}|{_ANSWER}|{_FEELING}|{_GOING_ON}|{_AROUND})(?![a-z'’])|(?>{_CHINESE}))[\W_]*+)*",
    re.IGNORECASE,
)
"""Only phrases that any talk has, in English and Chinese."""


_OWN: Final = lazy_pattern(
    r"\b(?:my|mine|our|ours|your|yours)\b|(?<!\bhow )\b(?:do|did|have|had|am|was|are|were)\s+(?:i|we)\b"
    r"|(?<![帮幫给給教替为為])[我咱](?!写|寫|解[释釋])|[你您]的",
    re.IGNORECASE,
)
"""The asker's own things, or what was said before: "my", "did we", not "how do I" and "帮我"."""


def says_nothing(text: str) -> bool:
    """Whether a message is only greetings, thanks and the like: "ok, thanks", "go on", "好的"."""
    return len(text) <= _LONGEST and _FILLER.fullmatch(text) is not None


def relevant_hits(text: str, report: SearchReport, least_similarity: float | None) -> tuple[Hit, ...]:
    """Return the hits that have to do with a message; none where nothing in the store has.

    Beside what answers a question, its other hits are left out where neither their score nor their cosine is near.

    Args:
        text: the message.
        report: of the search for it.
        least_similarity: cosine of the store's model below which even the nearest item has nothing to do with a
            message; None where it is not known, so that only a message that says nothing is not answered.
    """
    if report.asks_for_period:
        return report.hits
    if says_nothing(text):
        return ()
    if report.best_similarity is None:
        return report.hits if _has_words(text, report) else ()
    if least_similarity is None:
        return report.hits
    asks, best = asks_something(text), report.best_score or 0.0
    # What somebody asks about themselves is in no other place, and told in other words: "How do I like your answers?".
    is_answered = asks and (best >= _LEAST_SCORE or _OWN.search(text) is not None)
    wanted = least_similarity + (_DOUBT if asks and best < _LOW_SCORE else 0)
    if report.best_similarity < wanted and not is_answered:
        return ()
    far = {hit.item.id for hit in report.hits if hit.similarity is not None and hit.similarity < least_similarity}
    return tuple(hit for hit in report.hits if not asks or hit.score >= _LEAST_OF_BEST * best or hit.item.id not in far)


def _has_words(text: str, report: SearchReport) -> bool:
    """Whether one of the best hits has enough of a message's content words."""
    asked = {term for term in query_terms(text) if term not in STOP_WORDS}
    wanted = min(_LEAST_SHARE * len(asked), _LEAST_WORDS)
    return not asked or any(len(asked.intersection(terms(hit.item.full_text()))) >= wanted for hit in report.hits)
