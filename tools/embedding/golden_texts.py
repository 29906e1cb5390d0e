"""The texts whose vectors are kept in `tests/models/golden_minilm.json`."""

from __future__ import annotations

_PARAGRAPH = (
    "The night train left the harbour at ten, and by midnight the coast had become a thin line of lamps. "
    "Marta wrote the numbers of the carriages into her notebook: 4, 7, 12, then none for a long while. "
    "Nobody had told her that the dining car would close early, or that the conductor collected stamps. "
)

GOLDEN_TEXTS = (
    "I like green tea in the morning.",
    "She prefers black coffee without sugar.",
    "What does the user drink at breakfast?",
    "The deployment failed because the database password had expired.",
    "Rotate the credentials of the staging database every ninety days.",
    "The cat sleeps on the warm keyboard.",
    "Our meeting with the supplier moved from Tuesday to Thursday at 15:30.",
    "Bring the blue folder, the contract and two copies of the invoice.",
    "He has been allergic to peanuts since childhood.",
    "Paris is the capital of France.",
    "The quarterly revenue rose by 4.5% to $1,203,400.",
    "def add(a: int, b: int) -> int:\n    return a + b",
    "SELECT name, count(*) FROM orders WHERE paid = 0 GROUP BY name;",
    '{"retry": {"max": 5, "wait_ms": [100, 200, 400]}}',
    "for i in range(10): print(f'{i:>3} {i ** 2}')",
    "Traceback (most recent call last): KeyError: 'embedding'",
    "https://example.com/docs/page?id=42&lang=en#install",
    "C:\\Users\\marta\\notes\\2024-05-01.md",
    "3.14159 2.71828 1.41421 0 -1 1e-9",
    "1234567890",
    "+49 30 123456 or write to marta@example.com",
    "UPPER CASE AND lower case AnD mIxEd",
    "Café, naïve, résumé, Zürich, façade, smörgåsbord",
    "Don't you'd we've it's o'clock",
    "Wait... what?! No -- really; (yes) [no] {maybe}",
    "supercalifragilisticexpialidocious",
    "a" * 150,
    "x",
    ".",
    "\u200b",
    "[UNK] and [MASK] are names of tokens",
    "我喜欢在早上喝绿茶。",
    "数据库的密码已经过期，所以部署失败了。",
    "東京の天気は晴れです。",
    "한국어 문장도 하나 있습니다.",
    "ภาษาไทยไม่มีช่องว่าง",
    "مرحبا بالعالم",
    "Привет, мир! Как дела?",
    "🎉 party time 🚀🚀 👩‍👩‍👧",
    "tabs\tand\nnew lines\r\nand\u00a0odd\u2003spaces",
    "control \x00\x07\x1b characters \ufffd inside",
    _PARAGRAPH,
    _PARAGRAPH * 4,
    _PARAGRAPH * 12,
    "word " * 400,
)
