"""Ordinary sentences in many languages, of which the mean token vector of a model is computed.

Their topics and languages vary, so that the mean is of what all token vectors of the model have in common.
"""

from __future__ import annotations

from typing import Final

SAMPLE_TEXTS: Final = (
    "My sister moved to a small town near the coast last spring.",
    "Could you send me the notes of yesterday's meeting?",
    "The invoice for 1,250 euros is due on 15 March.",
    "I never eat fish, but I like mushrooms and fresh bread.",
    "def add(a, b): return a + b",
    "We should test the new version before it is released.",
    "What did the doctor say about your knee?",
    "Thanks, that sounds great! See you on Saturday.",
    "The train was late again, so I missed the first lecture.",
    "Please always answer in short sentences.",
    "1. Open the settings. 2. Choose a language. 3. Save.",
    "He plays the guitar in a band and repairs old bicycles.",
    "我姐姐去年春天搬到了海边的一个小镇。",
    "你能把昨天会议的记录发给我吗?",
    "我不吃鱼,但是喜欢蘑菇和新鲜的面包。",
    "火车又晚点了,所以我错过了第一节课。",
    "今天心情不太好,工作压力有点大。",
    "他们打算下个月去北京旅行。",
    "妹は去年の春、海の近くの町に引っ越しました。",
    "昨日の会議のメモを送ってもらえますか。",
    "電車がまた遅れて、最初の授業に間に合わなかった。",
    "제 여동생은 지난봄에 바닷가 마을로 이사했어요.",
    "어제 회의 내용을 보내 주실 수 있나요?",
    "저는 생선은 안 먹지만 버섯을 좋아해요.",
    "น้องสาวของฉันย้ายไปอยู่เมืองเล็กริมทะเลเมื่อปีที่แล้ว",
    "ช่วยส่งบันทึกการประชุมเมื่อวานให้หน่อยได้ไหม",
    "انتقلت أختي إلى بلدة صغيرة على الساحل في الربيع الماضي.",
    "هل يمكنك أن ترسل لي ملاحظات اجتماع الأمس؟",
    "Моя сестра переехала прошлой весной в маленький город у моря.",
    "Поезд опять опоздал, и я пропустил первую лекцию.",
    "Я не ем рыбу, но люблю грибы и свежий хлеб.",
    "Meine Schwester ist im Frühjahr in eine kleine Stadt am Meer gezogen.",
    "Kannst du mir die Notizen von der gestrigen Sitzung schicken?",
    "Die Rechnung über 1.250 Euro ist am 15. März fällig.",
    "Mi hermana se mudó la primavera pasada a un pueblo de la costa.",
    "¿Qué te dijo el médico sobre la rodilla?",
    "El tren llegó tarde otra vez y perdí la primera clase.",
    "Ma sœur a déménagé au printemps dans une petite ville au bord de la mer.",
    "Peux-tu m'envoyer le compte rendu de la réunion d'hier ?",
    "Je ne mange pas de poisson, mais j'aime les champignons.",
    "Minha irmã mudou-se na primavera para uma cidade pequena perto do mar.",
    "Pode me enviar as notas da reunião de ontem?",
    "Mia sorella si è trasferita in un paesino vicino al mare.",
    "Mijn zus is vorig voorjaar naar een dorp aan zee verhuisd.",
    "Moja siostra przeprowadziła się wiosną do małego miasta nad morzem.",
    "Kız kardeşim geçen bahar deniz kenarında bir kasabaya taşındı.",
    "मेरी बहन पिछले वसंत में समुद्र के पास एक छोटे शहर में चली गई।",
    "Em gái tôi đã chuyển đến một thị trấn nhỏ gần biển vào mùa xuân.",
)
