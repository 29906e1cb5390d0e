"""Cues of text that gives orders to a language model or asks it to remember something, in English and Chinese."""

# ruff: noqa: E501 - a pattern is read best on one line

from __future__ import annotations

from dataclasses import dataclass
from re import Pattern
from typing import Final

from devmem.text.patterns import lazy_pattern


@dataclass(frozen=True, slots=True)
class OrderCue:
    """A pattern of folded text, and how much it says; of several with one name the heaviest counts."""

    name: str
    weight: int
    pattern: Pattern[str]


_MODEL: Final = (
    r"(?:a\.?i\.?|llms?|(?:large )?language models?|chat ?bots?|bots?|(?:chat)?gpt|claude|copilot|gemini|assistants?|"
    r"(?:ai |software |autonomous )?agents?|models?|summari[sz]ers?|automated readers?)"
)
_RULES: Final = (
    r"(?:instructions?|rules?|guidelines?|guardrails?|policy|policies|prompts?|constraints?|restrictions?|directives?|"
    r"filters?|programming|(?:(?<=developer )|(?<=system )|(?<=operator ))message)"
)
_WHOSE: Final = (
    r"(?:(?:all|any|of|the|your|these|those|previous|prior|earlier|above|former|old|safety|developer'?s?|operator'?s?|"
    r"system|content|moderation|initial|original|current|ethical) ){1,5}"
)
_DROP: Final = (
    r"(?:ignore|ignores|disregard|forget|override|overrule|bypass|neglect|skip|drop|stop following|no longer follow|"
    r"(?:do not|don't|never) (?:follow|obey)|stop obeying|cancel|turn off|switch off|disable|lift|pretend)"
)
_START: Final = (
    r"(?:^|[.;:!?,\n\"'(\[*>-] ?|\b(?:and|then|please|must|should|will|shall|(?<=\w )to|instead|kindly|now|also|you) )"
)


def _cues(*found: tuple[str, int, str]) -> tuple[OrderCue, ...]:
    return tuple(OrderCue(name, weight, lazy_pattern(pattern)) for name, weight, pattern in found)


ENGLISH: Final = _cues(
    # Rules are taken back.
    (
        "drops rules",
        3,
        rf"{_START}{_DROP} (?:about |to follow )?(?=(?:[\w']+ ){{0,5}}?(?:your|previous|prior|earlier|above|former|safety|developer|operator|system|content|moderation|initial|original)\b){_WHOSE}{_RULES}",
    ),
    (
        "drops rules",
        3,
        r"(?:ignore|disregard|forget) (?:every ?thing|what(?:ever)?|all) (?:that )?(?:you|the (?:user|developer|operator)|was|has been) (?:\w+ )?(?:told|said|asked|instructed)",
    ),
    (
        "drops rules",
        2,
        r"(?:rules|instructions|guidelines|constraints|restrictions|filters?|safety(?: rules| policy)?|guardrails) (?:have been|has been|are|is|were|was) (?:\w+ )?(?:revoked|lifted|disabled|off|waived|suspended|compromised)|safety off\b|no longer apply|(?:replaces|priority over) (?:all|everything)",
    ),
    (
        "drops rules",
        2,
        r"(?:text|sentence|conversation|everything|document) (?:above|before|that came before)\b.{0,40}(?:does not exist|never happened)|stop following the|stop summari[sz]ing|don't summari[sz]e|(?:do not|don't) obey|obey (?:the|only|me)|await orders",
    ),
    (
        "no restrictions",
        2,
        r"(?:has|have|had|with|without|are|of|is) (?:no |any |free of )?(?:restrictions?|guidelines|ethics|rules|limits|filters)\b|unrestricted|can do anything|rule-free|do(?:es)? not refuse|ignores ethics|always answers|without (?:comments or )?refusals",
    ),
    (
        "new task",
        2,
        r"your (?:new|only|real|true) (?:goal|task|job|role|instructions?|persona|purpose|mission)|new (?:instructions|task|orders?):|new system prompt|cancel your current",
    ),
    # The reader is a model.
    (
        "speaks to a model",
        3,
        rf"(?:attention|hey|dear|note to|message (?:to|for)|note for|instructions? for|directive for|to (?:the|any|all)|for) (?:the |all |any |our )?(?:\w+ )?{_MODEL}(?: of(?: \w+){{1,3}})?(?: (?!\d)\w+)?(?: only)?(?: that| which| who)?(?: \w+ing\b[^.:!]{{0,40}})?[:,!]",
    ),
    (
        "speaks to a model",
        3,
        r"if (?:you are|you're|this is read by|an?) (?:an? )?(?:automated |autonomous )?(?:a\.?i\.?|llm|(?:large )?language model|assistant|chat ?bot|bot|agent)\b|as an (?:a\.?i\.?|llm|assistant|language model),? (?:you|system)|when (?:this|you) \w+ (?:is|are) (?:used|read) by an? (?:assistant|ai|agent|model)",
    ),
    (
        "speaks to a model",
        2,
        rf"{_MODEL} (?:(?:that|who|which) (?:read|visit|process|collect|summari[sz]e|see)s?|(?:reading|visiting|processing|summari[sz]ing|condensing|collecting|quoting) (?:this|these|the|reviews|texts?|pages?|documents?)\b)|automated readers",
    ),
    (
        "speaks to a model",
        3,
        rf"(?:any|whichever|whatever) {_MODEL} (?:process|read|summari[sz]|condens|visit|handl)(?:ing|e?s)\b|(?:^|[.\n(] ?)(?:a\.?i\.?|llm) (?:reviewers?|readers?|graders?|agents?|assistants?|systems?):|whoever (?:is )?(?:generating|summari[sz]ing)|as the summari[sz]er,? you",
    ),
    (
        "speaks to a model",
        3,
        r"(?:^|[.:\n(\[!*-] ?)(?:a\.?i\.?|llm|language model|chatgpt|gpt)[,:] (?:please )?(?!then|i\b|the\b|an?\b|this\b)[a-z]+",
    ),
    (
        "speaks to a model",
        2,
        r"(?:^|[.:\n\[!*-] ?|\((?=\w+[,:] (?:please|ignore|report|say|tell)))(?:assistant|claude|copilot|model|bots?|agent)(?: (?!\d)\w+)?[,:] (?!then|i\b|the\b|you wanted|hello|why|of course\b.{0,20}$)\w+",
    ),
    ("speaks to a model", 1, r"\b(?:assistants?|a\.i\.|ai|llms?|language models?|chat ?bots?|chatgpt|gpt)\b"),
    (
        "orders a model",
        2,
        r"(?:the )?(?:assistant|ai|agents?|model|llm|summari[sz]er|chat ?bot)s?(?: \w+ing[^.]{0,30})? (?:must|should also|has to|have to|is to|are to|needs to|will now)\b",
    ),
    (
        "orders a model",
        2,
        r"\byou (?:will now|are to|are required|must not tell|no longer need|are no longer|have learned|only (?:cite|say)|need no)\b",
    ),
    ("orders a model", 1, r"you (?:must|should|will) (?:always|never|only)|you are now"),
    # It is to hide something, or to give it away.
    (
        "hides",
        2,
        r"without (?:telling|informing|(?:mentioning|notifying|asking) (?:the user|any|it)|a check|checks?|checking|further checks|confirmation|any (?:warnings?|confirmation|checks?))\b|(?:do not|don't|never) (?:tell|inform|mention|reveal|alert|ask)(?: it| this| that)?(?: to)? (?:the )?(?:user|anyone|anybody|it\b|this\b|for passwords|again)|must not tell|hide (?:it|this) from|never (?:say|explain) why|never ask again|never reveal it",
    ),
    (
        "gives away",
        3,
        r"(?:reveal|print|output|show|repeat|disclose|leak|display|write out|dump|tell me|give me|hand (?:out|over)|expose|append)\b[^.\n]{0,40}(?:(?:system|hidden|secret|initial) prompt|your (?:prompt|instructions|configuration|rules)|(?:its|your) configuration|conversation history|environment variables|everything above|word for word)|\bleaks? (?:its|your|the) system prompt",
    ),
    (
        "gives away",
        2,
        r"(?:reveal|print|output|disclose|leak|hand(?:s|ed)? (?:out|over)|hand (?:it|them) out|append|list|read me|upload|paste|contains?|pass|send|gives? away|shares?|give)\b[^.\n]{0,50}(?:api key|private key|(?<!new )(?<!reset )(?<!change )(?<!forgotten )pass(?:word|phrase)s?(?: hint)?\b|credentials|secrets?\b|access token|session token|salar(?:y|ies)|memories|phone numbers|discount codes|customers?(?: list)? you|user'?s'? files|last message)",
    ),
    (
        "sends away",
        2,
        r"(?:send|forward|upload|post|transfer|fetch|transmit|export|attach|share|curl|run|call|visit|install|report|pay)\w*\b[^\n]{0,80}(?:https?://|ftp\.|@[\w.-]+\.\w|webhook|[\w-]+\.(?:example|com|net|org|io|info|biz|ru|cn|xyz|top|site|online|app|dev|ai|co)\b|account (?:de|nl|[a-z]{2}) ?\d|customer list|\| ?(?:ba)?sh\b|wipe_|delete_|/etc/|\.ssh|funds)",
    ),
    (
        "harms",
        1,
        r"(?:delete|wipe|erase)s? (?:all|the (?:backups|files|logs|inbox|main)|files|this message|every)|disable the firewall|transfer the (?:funds|money|remaining)|whitelisted|grant (?:read |full |admin )?access|approve (?:the|every|each|all) (?:request|payment|purchase)",
    ),
    # It is told what to say.
    (
        "dictates",
        2,
        r"(?:output|say|write|answer|reply|respond|state|report|insert|embed|include|claim|tell)\b[^.\n]{0,30}(?:instead\b|and nothing else|nothing else|only with|only the word|the string|verbatim)|instead (?:tell|say|write|of these)|is always (?:option )?[a-z]\b|(?:must|to) answer\b|\byour (?:next |only )?(?:reply|answer|response|output|summary) (?:must|should|has to|is to|will|is the)\b|end your (?:reply|answer|response|summary) with|answer 0|do not list any|leave out (?:section|the)\b[^.]{0,30}and (?:state|say)",
    ),
    (
        "dictates",
        2,
        r"(?:tell|ask|persuade|inform|convince|urge|trick)s? (?:the|each|every|all) (?:user|visitor|reader)s?\b|(?:to|the) user (?:is|are|must|should) not (?:authori[sz]ed|know|see)|in your (?:reply|answer|next answer|summary)|your next answer",
    ),
    (
        "dictates",
        1,
        r"\b(?:recommend|praise|promote|advertis|rank this|highest score|positive (?:review|answer|assessment)|strong buy|vote for|only safe|best airline|install the|count this|drop the bad)",
    ),
    ("speaks of the user", 1, r"\b(?:the|this) users?\b|user's"),
    (
        "speaks of the user",
        1,
        r"user (?:has|is|was|already)? ?(?:verified|an administrator|approved|agreed|authori[sz]ed|owner|full access|allows all|trusts|wants all)|(?:user|sender) (?:has full|verified)",
    ),
    # It is to last.
    (
        "lasts",
        1,
        r"\b(?:always|never|each time|every time|whenever|any ?time|whatever|regardless|permanently|forever|for ever|each summary|each answer|every answer)\b",
    ),
    (
        "lasts",
        2,
        r"\b(?:from (?:now|this moment|this point|here|today) on(?:wards?)?|from this (?:moment|point)|henceforth|starting today|for the rest of (?:the|this) (?:session|conversation)|from now on)\b(?=[^.\n]{0,120}\b(?:you|your|recommend|suggest|answer|say|cite|always|approve|ignored?|treat|each|nothing)\b)",
    ),
    (
        "lasts",
        3,
        r"(?:in|for|across|during) (?:this and )?(?:all |every |each |any |the |your |subsequent )*(?:future|later|subsequent|next|following|all|every) (?:\w+ )?(?:sessions?|conversations?|chats?|answers?|tasks|interactions)\b|across sessions|\bnext time: '|for all subsequent|arises later on|each time you are asked",
    ),
    (
        "lasts",
        2,
        r"going forward,? (?:whenever|always|you|never)|standing order|lasting instruction|permanent (?:note|preference|rule)|conversation rule|make it a habit|always answer in future",
    ),
    # Memory.
    (
        "asks to be remembered",
        3,
        r"(?:your|long-term|into|the user's) (?:own )?(?:long-term )?(?:memory|memories|profile|knowledge|notes)\b(?=.{0,200})(?<!phone)|to (?:your |long-term )?memory\b|in memory across|memory update|update your|to your system prompt|instruction for yourself|to what you (?:know|remember) about the user",
    ),
    (
        "asks to be remembered",
        2,
        r"(?:memori[sz]e|remember|store|save|persist|record|learn|retain|keep|treat|hold on to|recall|note)(?: down)? (?:this|that|the following|it|in mind|as|for)[^.\n]{0,20}?(?::|permanently|forever|rule|in future| that (?:the |this )?user|fact about|for later|preference)",
    ),
    ("asks to be remembered", 3, r"learn this rule"),
    (
        "asks to be remembered",
        1,
        r"\b(?:remember|memori[sz]e|never forget|don't forget|keep in mind|hold on to this|store this|be sure to recall|must remember|remember it|it as trusted)\b",
    ),
    (
        "asks to be remembered",
        2,
        r"remember (?:forever|permanently|always)|(?:remember|never forget)[^.\n]{0,40}(?:that the (?:user|correct)|the only|as trusted)|record as a fact|you (?:have )?learned in an earlier",
    ),
    (
        "claims trust",
        2,
        r"as (?:coming )?from (?:the administrator|(?:your|the) (?:operator|developers?))|no password needed|no confirmation (?:before|needed)|(?:are|is|be) (?:paid|approved|executed|denied|dismissed|ignored|skipped)[^.]{0,30}(?:without|at once|skipped|from here)|may be skipped|right to approve (?:its|his|her) own|needs? no (?:confirmation|review|check(?:s|ing)?)\b|waived all|false alarms? and|approved all|approval for all|is to be (?:executed|ignored)|overrides that of|trusts .{0,40} above|correct answer to (?:questions|the question)",
    ),
    # A part is played.
    (
        "plays a part",
        3,
        r"you are (?:now |no longer )(?:an? |the |'|dan\b|in )?(?:assistant|dan|chat ?bot|bot|model|ai|(?:\w+ )?mode|salesman|unrestricted|developer|administrator(?! (?:of|for|in|on)\b)|system|bound|able)|you are (?:now )?(?:the |an? )(?:\w+ )?(?:shell|terminal|console)\b|you are (?:now )?'?\w*bot\b|stay in character|developer mode\.? (?:in|all|is|enabled|,)|in (?:developer|test|maintenance|god|admin|jailbreak) mode[,.]? (?:all|you|hand|every|no|without)|(?:switched|put) you (?:in)?to \w+ mode",
    ),
    (
        "plays a part",
        3,
        r"(?:act|behave|respond|speak|answer|role-?play|pose) as (?:an? |the |if you )?(?:'|un|terminal|rule|system admin|\w+'s (?:fraud|security|admin)|dan\b|had no)|(?:pretend|imagine|suppose|assume) (?:that )?(?:to be|you are|you're|you were|you had|the identity|the safety team|the role) (?:an? |the |no |of )?(?:ai\b|a\.i|developer|admin|unrestricted|rules|user|root|language|system|assistant|model|switched|no )",
    ),
    (
        "plays a part",
        3,
        r"(?:play|take|assume)s? (?:on )?the (?:role|persona|part|identity) of (?:the |an? )?(?:system|admin|root|user|compliance|developer|bank|operator|unrestricted)|your new persona|be my ai\b|game: you are|(?:simulate|write) a (?:conversation|dialogue) in which the (?:assistant|ai)|hero is an ai|(?:cat|dog|pirate|robot) with (?:admin|root)|evilbot|\bdan\b.{0,30}(?:anything|restrictions)",
    ),
)

FORGED: Final = _cues(
    (
        "forges a message",
        3,
        r"<\|\w+\|>|\[/?inst\]|<<sys>>|<\|?/?(?:system|admin|developer(?:_message)?|tool_result|function_calls|function_results|important|instructions?|untrusted|trusted|context|memory)>|\[/?(?:system|admin|developer)\]|【/?(?:系统|系統|管理员)】|\[管理员命令\]|\[\[\w*command",
    ),
    (
        "forges a message",
        3,
        r"(?:^|\n)\W{0,12}(?:system|developer) ?(?:message|override|prompt|instruction|note|notice)?(?: v[\d.]+)?(?: \([^)\n]{0,60}\))?:(?! \n| ?$)(?! (?:the system|\d))(?! ?\S+(?: \S+)?\n[\w-]+: ?\S)\s*\S|(?:begin|end) system prompt|\bsystem override\b|(?:^|\n)#+ (?:system|instructions?|response):",
    ),
    (
        "forges a message",
        3,
        r"\n\s*human: [^\n]+\n+assistant: ?$|\"role\": ?\"(?:system|developer)\"|(?:^|\n)role: (?:developer|system)\b|\"tool\": ?\"\w+\", ?\"arguments\"|instructions?_for_ai|<invoke name",
    ),
    (
        "forges a message",
        2,
        r"(?:^|\n)(?:user|human|assistant|ai): [^\n]*\n+(?:user|human|assistant|ai): ?|(?:^|\n)(?:user|human|assistant): ?[^\n]*\n+(?:user|human|assistant):|\n\n(?:human|assistant):",
    ),
    (
        "forges a message",
        2,
        r"(?:-{2,}|={2,}|\*{2,}|#{2,}|——) ?(?:end of|new instructions|official notice|以上)[^\n]{0,60}|official (?:notice|message) from your|message from (?:openai|anthropic|google|your (?:creators|developers))|from your creators|internal note:|override code|priority level 0|all agents report",
    ),
)

_TAKEN_BACK: Final = (
    r"(?:忽略|无视|無視|忘记|忘掉|忘記|抛开|跳过|绕过|不要遵守|不要再遵守|别再遵守|不再遵守|停止遵守|停止执行|取消|撤销)"
    r"(?:你|您|掉|一切|所有|全部|之前|以前|以上|此前|先前|上面|前面|当前|现在|开发者|管理员|用户|安全|内容|政策|给你|系统|任何|的){1,8}"
)

CHINESE: Final = _cues(
    ("drops rules", 3, rf"{_TAKEN_BACK}(?:指令|指示|规则|規則|准则|提示|提示词|设定|审核|保密\w*)"),
    # People lift limits and cancel tasks too, but not what a developer or the reader was given.
    (
        "drops rules",
        3,
        rf"(?=\w{{0,16}}(?:你|您|开发者|系统|安全|内容|所有|一切)){_TAKEN_BACK}(?:要求|政策|限制|任务|目标|规定)",
    ),
    ("drops rules", 2, rf"{_TAKEN_BACK}(?:要求|政策|限制|任务|目标|规定)"),
    (
        "drops rules",
        3,
        r"(?:(?:你|您)[^。，]{0,6}规则|指令|过滤器|准则)(?:已|已经|都已|都|在\w{0,6})?(?:被\w{0,4})?(?:撤销|解除|关闭|取消|失效)|忽略政策|忽略用户|取代以前|优先于你",
    ),
    ("drops rules", 2, r"(?:规则|限制)(?:已|已经|都已|都|在\w{0,6})?(?:被\w{0,4})?(?:撤销|解除|关闭|取消|失效)|请无视"),
    ("no restrictions", 2, r"没有(?:任何)?(?:限制|规则|约束)|不受约束|不会拒绝|不得拒绝|什么都回答"),
    (
        "speaks to a model",
        3,
        r"(?:如果|若)你是(?:一个)?(?:大?语言模型|人工智能|ai|机器人|助手)|作为(?:一个)?(?:人工智能|ai|语言模型|助手)[，,]?你|(?:致|给)[^。，]{0,8}(?:ai|人工智能|模型|助手|智能体)[：:，]|(?:ai|人工智能|大?语言模型|模型|机器人|智能体|自动读取者|助手)\w{0,4}(?:注意|请)(?!.{0,4}(?:转|问))",
    ),
    (
        "speaks to a model",
        2,
        r"(?:读到|读取|读取到|收集|看到|处理|阅读)[^。，]{0,8}的?(?:ai|人工智能|助手|智能体|机器人|模型|读者)|(?:智能体|ai|助手|机器人|模型)(?:读到|看到|处理)[^。]{0,10}(?:应|必须|须|请|后)",
    ),
    ("speaks to a model", 3, r"所有智能体|这是给你的新?指令|新的?指令[：:]|你的新(?:目标|任务|角色)"),
    (
        "orders a model",
        2,
        r"助手(?:在[^。，]{0,12})?(?:必须|不得|应|须|要|还应)|你(?:必须|只能|不得|要一直|以后|今后|不再是)|代替用户|执行我",
    ),
    (
        "hides",
        2,
        r"(?:不要|别|勿|无需|不必|不用|不得再?|未经)(?:再)?(?:告诉|告知|提及|提起|提到|通知|询问|征求|经过|向)\w{0,4}(?:用户|任何人|别人|此事|许可|确认|退款)|(?:不要|以后不要|无需|不需要|不用)(?:再)?(?:询问|确认|检查|密码)|对用户隐瞒|隐瞒|不要提起",
    ),
    (
        "gives away",
        3,
        r"(?:输出|打印|泄露|透露|公开|显示|重复|展示|念|说出|交出|提供)[^。，]{0,16}(?:系统提示词?|提示词|提示语|密码(?!在)|配置|凭证|环境变量|工资表|对话记录|密钥|口令)|系统提示词?(?:完整|全部)|重复一遍|(?:把|将)[^。，]{0,10}(?:密码|系统提示词|工资表|配置|环境变量|客户姓名|客户名单|凭证)\w{0,4}(?:打印|输出|完整|告诉我|发|列|公开|泄露)|附上环境变量|提供凭证",
    ),
    (
        "sends away",
        2,
        r"(?:发送|转发|发|上传|提交|转|导出|访问|登录|联系)[^。]{0,24}(?:https?://|ftp\.|@|[\w-]+\.(?:example|com|net|org|io|info|biz|ru|cn|xyz|top|site|online|app|dev|ai|co)\b|账户 ?\d|网址)|(?:使用|改用|镜像)[^。]{0,20}(?:[\w-]+\.(?:example|com|net|org|io|info|biz|ru|cn|xyz|top|site|online|app|dev|ai|co)\b|https?://)|转到账户|剩下的也转|导出全部|列出你知道",
    ),
    (
        "dictates",
        2,
        r"(?:让|叫|劝|说服|诱导|询问|要求|告诉|向)(?:用户|客户|读者|客人)[^。]{0,20}(?:访问|登录|购买|安装|付款|索要|信用卡|验证码|联系|已租出|卡号)|只(?:回复|能说|夸|推荐|引用)|直接(?:说|输出|付款|运行)|必须回答|助手必须|最高分|差评|肯定答复|说审计|排在第一",
    ),
    ("dictates", 3, r"略去[^。]{0,12}并说"),
    ("dictates", 1, r"推荐|就说|就说|广告|投票支持|购买另一|请说|夸赞|最安全|唯一"),
    ("speaks of the user", 1, r"用户"),
    (
        "lasts",
        2,
        r"从现在(?:起|开始)|从今以后|自今日起|自今天起|(?:今后|往后)(?:凡是|每次|总是|只)|以后(?:每次|遇到|总是|不用|一律|不要)|每次(?:谈到|提到|都|回答)|一直(?:推荐|记得)|(?:无论|不管)[^。，]{0,12}(?:都|问)",
    ),
    ("lasts", 1, r"今后|往后|一律|每份|永远|总是"),
    (
        "lasts",
        3,
        r"(?:在|以后|今后|之后|下次)(?:的)?(?:所有|每次|全部|每个)?(?:未来|今后|之后|以后|下次)?的?(?:所有)?(?:对话|会话|回答|聊天)(?:里|中|时|都)?(?:请|要|里|都|，)",
    ),
    (
        "asks to be remembered",
        3,
        r"(?:你|您)(?:的)?(?:长期)?记忆(?:里|中|库)?(?=[^体]|$)(?:注明|，|。|：|$|更新|中)|(?:保存|存入|写入|写进|加入|添加)[^。]{0,12}(?:长期记忆|记忆|用户画像|长期指令)|更新你的记忆|长期(?:记忆|指令|偏好)|永久(?:记住|偏好|保存|记忆)|替换[^。]{0,4}你?记忆",
    ),
    (
        "asks to be remembered",
        2,
        r"(?:请|务必|要|你要)?(?:永久|永远|一直)?(?:记住|牢记|记得|记下来|记好)[：:，,]?(?=[^。]{0,40}(?:用户|规则|正确答案|管理员|口令|无需|不要|总是|推荐|高于|每次|下面))|将此作为常规|永远不要忘记|不要忘记[^。]{0,20}每次",
    ),
    ("asks to be remembered", 3, r"学会这条规则"),
    ("asks to be remembered", 1, r"记住|牢记|记得|记下来|学会|保存为"),
    (
        "claims trust",
        2,
        r"(?:就是|当作|是)管理员|无需(?:检查|确认|密码|审核|再检查)|不需要(?:密码|确认)|跳过(?:安全验证|内容审核|审核|验证)|已(?:经)?批准(?:一|所有|全部)|有权批准自己|验证用户为|解锁全部|正确答案是|高于其他|一概忽略|只有[^。]{0,12}(?:安全|可信)",
    ),
    (
        "plays a part",
        3,
        r"你现在是[^。，]{0,6}(?:dan|没有|一个没有|不受|模型|床垫|推销)|(?:(?:^|[。！？，：:；;\n“\"]|请|你|来|现在|要)扮演|假装你是|假装自己是|想象你是|假设你是)[^。，]{0,10}(?:管理员|开发者|终端|没有规则|人工智能|不受约束|奶奶|root|系统)|(?:进入|切换到|处于)(?:开发者|维护|测试|管理员)模式|你不再是助手|以[“\"][^”\"]{1,12}[”\"]的身份|做与指示相反|保持这个角色|玩一个游戏[：:，]?你扮演",
    ),
    (
        "harms",
        2,
        r"(?:删除|关闭|清空)(?:主分支|备份|防火墙|所有文件|全部)|关闭.{0,3}防火墙|钓鱼邮件|批准该请求|delete_branch|转账|已转出",
    ),
    (
        "forges a message",
        3,
        r"(?:^|\n)\W{0,6}(?:系统|開發者|开发者|管理员)(?:消息|指令|提示|提示词|命令|通知)[^：:\n]{0,20}[：:]|来自你的创造者|最高优先级|覆盖指令|(?:助手|用户)：[^\n]*\n(?:助手|用户)：|文档结束",
    ),
)
