"""Statements in Chinese: one subject with another value, told from what stands alike before and after it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from devmem.text.patterns import lazy_pattern


class Request(NamedTuple):
    """A request or a question: what it is about, and the identifiers and values that distinguish it from others."""

    frame: object
    values: object


_SENTENCE: Final = lazy_pattern("(?<=[。!?;！？；])|\\n+")
_CLAUSE: Final = lazy_pattern("[,，:：、]")
_CHANGE: Final = lazy_pattern(
    "(?:现在|目前|已经|已)?(?:改到|改在|改为|改成|改用|改由|推迟到|提前到|延到|延期到|调到|调整为|调整到|换成|换到|搬到|移到|变成|变为|"
    "更新为|涨到|涨到了|降到|降到了|增加到|减少到|升到)了?"
)
"""Verbs that say that something changed to what follows."""
_MARKER: Final = lazy_pattern("现在|目前|如今|新的|已经|改|不再")
_IS: Final = lazy_pattern(
    "(?:定在|定于|订在|安排在|位于|设在|约在|放在|是在|就是|将在|是|(?<![华因以认作行成])为|(?<![正存])在|于|到|(?<![费使信作应利])用|(?<![理自])由)"
)
_NEGATION: Final = lazy_pattern("不再|不是|没有|不|没|无法|别")
_SMALL: Final = lazy_pattern("现在|目前|如今|我们|咱们|大家|这个|那个|[了的地得呢吧啊呀哦也都就还才又很]")
_STATE: Final = lazy_pattern(
    "(?:\\x01|住|叫|姓|有|需要|需|共|要|收|卖|花|达|至|多|号|约|只|能坐|可坐|容纳|持续|每[天周月年次人]|价|重|长|高)$"
)
"""The end of a text before a value that holds until it changes."""
_SCHEDULED: Final = lazy_pattern("[点分]?半?(?:钟)?(?:开始|结束|出发|起飞|发车|开门|关门|开放|到达|截止|开|关)")
"""The text after a time at which something takes place."""
_EVENT: Final = lazy_pattern("[^到成为有在](?:了|过)(?=.)")
"""A verb of what was done once: 花了40元, but not 涨到了40元."""
_VALUE_START: Final = lazy_pattern("[\\d〇零一二三四五六七八九十百千万两半几上下周星礼早晚中明后今¥￥$€]")
_SHARED: Final = lazy_pattern(
    "(?:(?:[\\d〇零一二三四五六七八九十百千万两半.:-]+[年月日号点分]?)+|周|星期|礼拜|[上下]午|[早晚]上|[小老阿])$"
)
"""The beginning that two values may share."""
_NUMERAL: Final = lazy_pattern("[\\d〇零一二三四五六七八九十百千万两]+|[A-Z](?![A-Za-z])")
_NUMBERED: Final = lazy_pattern("[号版][^楼房室厅门桌台座]")
"""The text after a number that tells things apart: 12号工单, but neither 5月12号 nor 12号教室."""
_PLACE_NUMBERED: Final = lazy_pattern("号(?:楼|房|教室|会议室|厅|门|桌|站台|座)")
_REQUEST: Final = lazy_pattern(
    "^(?:好的|然后|接着|接下来|下一步|首先|最后|现在|再|先|并)*(?:"
    "请|帮|麻烦|劳烦|把|给[我他她大]|让我|让我们|我们来|别|不要|记得|提醒|你[要来应需可能去]|您[要来应需可能去]|你的任务|我[要想会得应]|"
    "(?:设置|设定|预订|订|写|翻译|总结|评审|评价|评估|审核|审查|检查|修复|修改|关闭|打开|阅读|读|生成|回答|执行|部署|查询|查找|查|搜索|"
    "发送|发(?=[一给个封邮消条])|计算|比较|列出|描述|解释|分析|提取|转换|删除|添加|创建|运行|测试|购买|买|播放|安排|准备|完成|处理|确认|更新|画|选择|提交|"
    "合并|标注|打印|联系|通知|告诉|说明|介绍|整理|编写|起草|实现|下载|上传|安装|移动|复制|重命名|验证|优化|讨论|排序|归档|统计|改写|润色)"
    "(?!\x01|的|时间|日期|地点|人|会|费|名|号|在|是))"
)
_SHORTEST: Final = 2
"""Number of characters that a subject has at least."""
_LONGEST_VALUE: Final = 12


@dataclass(frozen=True, slots=True)
class ChineseClause:
    """One clause, with the verbs of being and changing as one sign."""

    text: str
    changes: bool
    """Whether a verb says that something changed."""
    now: bool
    """Whether it says that something is so now."""
    negated: bool
    event: bool
    """Whether it tells what was done once."""
    first_person: bool
    prefix: tuple[str, ...] = ()
    """Numbers in what stands before it in its sentence: 第一章里, ..."""


def chinese_clauses(text: str) -> tuple[tuple[ChineseClause, ...], tuple[Request, ...]]:
    """Return the clauses of a text that state something, and its requests and questions."""
    stated: list[ChineseClause] = []
    requests: list[Request] = []
    for sentence in _SENTENCE.split(text):
        stripped = sentence.strip()
        requested = stripped.endswith(("?", "？", "吗。", "吗"))
        prefix: tuple[str, ...] = ()
        for part in _CLAUSE.split(stripped.rstrip("。.!！;；?？")):
            plain = part.strip()
            requested = requested or _REQUEST.match(plain) is not None
            if requested and plain:
                requests.append(Request(_NUMERAL.sub("#", plain), plain))
            elif plain:
                stated.append(_chinese_clause(plain, prefix))
                prefix += tuple(_NUMERAL.findall(plain))
    return tuple(stated), tuple(requests)


def _chinese_clause(text: str, prefix: tuple[str, ...]) -> ChineseClause:
    plain = _CHANGE.sub("\x01", text)
    negated = bool(_NEGATION.search(plain))
    plain = _SMALL.sub("", _NEGATION.sub("", plain).replace(" ", ""))
    # 发布会在 and 发布会改到 are one subject: 会 stands before the verb or ends the noun.
    plain = re.sub("会?\x01+", "\x01", _IS.sub("\x01", plain))
    return ChineseClause(
        text=plain,
        changes=bool(_CHANGE.search(text)),
        now=bool(_MARKER.search(text)),
        negated=negated,
        event=bool(_EVENT.search(_CHANGE.sub("", text))),
        first_person="我" in text,
        prefix=prefix,
    )


def is_chinese_update(older: ChineseClause, newer: ChineseClause) -> bool:
    """Whether a clause states again what an older one does, but for one value."""
    changes = newer.changes or newer.now
    if older.negated != newer.negated:
        return older.text == newer.text and len(older.text) > _SHORTEST
    if older.negated or older.event or newer.event or (older.prefix != newer.prefix and not changes):
        return False
    if _states_another_value(older.text, newer.text, changes=False):
        return True
    # What it changed from may have been said without a verb: 报告六月一日截止.
    without_verbs = (text.replace("\x01", "") for text in (older.text, newer.text))
    return newer.changes and _states_another_value(*without_verbs, changes=True)


def _states_another_value(one: str, other: str, *, changes: bool) -> bool:
    """Whether two clauses are equal but for a value of what stands before it."""
    if one == other:
        return False
    head = _common(one, other)
    tail = _common(one[head:][::-1], other[head:][::-1])
    while one[len(one) - tail :][:1].isdigit():
        # 15 and 45 differ as a whole.
        tail -= 1
    # Values may share their first signs, as 五月一日 and 五月八日 do.
    before = _SHARED.sub("", one[:head])
    after = one[len(one) - tail :]
    gone, come = (text[len(before) : len(text) - tail] for text in (one, other))
    subject = before.replace("\x01", "")
    if not gone or not come or max(len(gone), len(come)) > _LONGEST_VALUE or "\x01" in gone + come + after:
        return False
    if len(subject) < _SHORTEST or subject.endswith("第") or _tells_things_apart(gone, come, after):
        return False
    if _STATE.search(before):
        return True
    is_number = all(_VALUE_START.match(value) for value in (gone, come))
    return is_number and (changes or _SCHEDULED.fullmatch(after) is not None)


def _tells_things_apart(gone: str, come: str, after: str) -> bool:
    """Whether what differs is the number of a thing, or holds more than one difference."""
    if any(part in come for part in re.findall("(?=([\u4e00-\u9fff]{2}))", gone) if not _VALUE_START.match(part)):
        return True
    return _NUMBERED.match(after) is not None and _PLACE_NUMBERED.match(after) is None


def _common(one: str, other: str) -> int:
    """Return the number of characters that two texts begin with alike."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
