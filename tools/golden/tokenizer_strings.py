"""Strings that a tokenizer can get wrong: many scripts, every kind of space, marks in any order, special tokens whole
and cut. Deterministic: string i of a seed is always the same."""
import random
import unicodedata

SENTENCES = [
    "On Monday the skipper paints a rusty barge; she doesn't hurry, they'll WAIT, it's 7:45.",
    "Der Bäcker öffnet früh, weil die Straße noch ruhig ist – größer als gedacht.",
    "Le garçon a mangé un gâteau à l'école où l'été s'achève bientôt.",
    "El niño pequeño corrió hacia la montaña mañana, ¿no es así?",
    "Żółty pociąg jedzie przez źródła i łąki do Gdańska.",
    "Быстрый поезд идёт через лес, и снег ещё лежит на полях.",
    "Η θάλασσα είναι ήρεμη και ο ναύτης κοιτάζει τα αστέρια.",
    "السفينة القديمة تصل إلى الميناء في الصباح الباكر.",
    "הספינה הישנה מגיעה לנמל בשעות הבוקר המוקדמות.",
    "पुरानी नाव सुबह बंदरगाह पर पहुँचती है।",
    "পুরানো নৌকা সকালে বন্দরে পৌঁছায়।",
    "பழைய படகு காலையில் துறைமுகத்தை அடைகிறது.",
    "เรือเก่ามาถึงท่าเรือในตอนเช้า",
    "古い船は朝早く港に着きます。カタカナとひらがな、漢字。",
    "旧船清晨抵达港口，船长在等待潮水。",
    "오래된 배가 아침 일찍 항구에 도착합니다.",
    "Con thuyền cũ đến cảng vào buổi sáng sớm, trời rất đẹp.",
    "ძველი გემი დილით ადრე ნავსადგურში შედის.",
    "Հին նավը վաղ առավոտյան հասնում է նավահանգիստ։",
    "አሮጌው መርከብ በማለዳ ወደብ ይደርሳል።",
    "Eski gemi sabah erkenden limana varıyor; İstanbul'da ığdır.",
    "for (int i = 0; i < n; ++i) { sum += values[i] * 2; }  // total\n",
    "def f(x):\n    return {'a': x, \"b\": [1, 2.5e-3]}\n\n\n",
    "<html><body class=\"x\">&amp; 100 % of 3,141,592 people</body></html>",
    "https://example.org/path?q=1&r=%20#top  user@example.org",
]
BLOCKS = [
    (0x20, 0x7E), (0xA0, 0x17F), (0x180, 0x24F), (0x250, 0x2FF), (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x58F),
    (0x590, 0x5FF), (0x600, 0x6FF), (0x700, 0x74F), (0x780, 0x7BF), (0x900, 0x97F), (0x980, 0x9FF), (0xA00, 0xA7F),
    (0xB80, 0xBFF), (0xC00, 0xC7F), (0xD00, 0xD7F), (0xE00, 0xE7F), (0xE80, 0xEFF), (0xF00, 0xFFF), (0x1000, 0x109F),
    (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137F), (0x13A0, 0x13FF), (0x1400, 0x167F), (0x16A0, 0x16FF),
    (0x1780, 0x17FF), (0x1800, 0x18AF), (0x1C80, 0x1C8F), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x20CF),
    (0x2100, 0x218F), (0x2190, 0x23FF), (0x2460, 0x24FF), (0x2E80, 0x2FFF), (0x3000, 0x30FF), (0x3130, 0x318F),
    (0x3400, 0x34FF), (0x4E00, 0x9FFF), (0xA000, 0xA48F), (0xA4D0, 0xA63F), (0xA720, 0xA7FF), (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF), (0xFB00, 0xFB4F), (0xFE70, 0xFEFF), (0xFF00, 0xFFEF), (0x10000, 0x100FF), (0x10330, 0x1034F),
    (0x10400, 0x1044F), (0x10A00, 0x10A5F), (0x11000, 0x1107F), (0x11380, 0x113FF), (0x11F00, 0x11F5F),
    (0x12000, 0x1206F), (0x13440, 0x1347F), (0x16D40, 0x16D7F), (0x1D400, 0x1D7FF), (0x1E030, 0x1E08F),
    (0x1E900, 0x1E95F), (0x1F300, 0x1FAFF), (0x20000, 0x2003F), (0x2EBF0, 0x2EC2F), (0x2F800, 0x2FA1F),
    (0x31350, 0x3137F), (0xE0100, 0xE01EF), (0xF0000, 0xF000F),
]
MARKS = list(range(0x300, 0x36F)) + [0x591, 0x5B0, 0x64B, 0x651, 0x93C, 0x94D, 0x9BE, 0xBD7, 0xDCF, 0x1161, 0x11A8,
                                     0x302A, 0x3099, 0x309A, 0x1D165, 0x1D16D, 0x323,
                                     0x334, 0x7FD, 0x8D0, 0x9FE, 0x1ABF, 0x1DF8, 0x10F48, 0x11930, 0x1E08F, 0x1E4EE]
SPACES = ["\t", "\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\xa0", "\u1680", "\u180e", "\u2000", "\u2009", "\u200b",
          "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\ufeff", " ", "  ", "    "]
PIECES = ["'s", "'S", "'ſ", "'t", "'RE", "'ve", "'M", "'ll", "'Ll", "'d", "’s", "''", "'", "K", "ﬁ", "ß", "ſ", "İ", "\0", "\x7f",
          "½", "Ⅻ", "²", "①", "٣", "१२३४५", "123456789", "3.14", "1,000", "...", "?!", "—", "«»", "_", "\\", "👩‍👩‍👧", "🇩🇪",
          "👍🏽", "e\u0301", "a\u0308\u0323", "a\u0323\u0308", "\u1100\u1161\u11a8", "\u212b", "\u2126", "\u0344",
          "\u0958", "\ufb1d", "\u2adc", "각", "\ud7a3", "<|", "|>", "<|end", "<think", "cafe\u0301", "café", "naïve"]


def character(rng):
    low, high = rng.choice(BLOCKS)
    return chr(rng.randint(low, high))


def word(rng):
    low, high = rng.choice(BLOCKS)
    return "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 8)))


def any_character(rng):
    code = rng.randint(0, 0x10FFFF - 0x800)
    return chr(code if code < 0xD800 else code + 0x800)


def part(rng, special):
    kind = rng.randrange(12)
    if kind < 3:
        words = rng.choice(SENTENCES).split(" ")
        begin = rng.randrange(len(words))
        return " ".join(words[begin:begin + rng.randint(1, 8)])
    if kind < 5:
        return word(rng)
    if kind == 5:
        return rng.choice(SPACES) * rng.randint(1, 3)
    if kind == 6:
        return rng.choice(PIECES)
    if kind == 7:
        return character(rng) + "".join(chr(rng.choice(MARKS)) for _ in range(rng.randint(1, 4)))
    if kind == 8:
        return any_character(rng) + any_character(rng)
    if kind == 9:
        return rng.choice(special)[:rng.choice([100, 100, 100, 5, -1])]
    if kind == 10:
        return unicodedata.normalize(rng.choice(["NFD", "NFC", "NFKD"]), rng.choice(SENTENCES)[:rng.randint(5, 40)])
    return rng.choice([" ", "\n", "0", "a", "ab", "É", "가", "-="]) * rng.randint(1, 90) if rng.randrange(4) == 0 else " "


def string(seed, i, special, real=()):
    """Of long `real` texts, if there are any, every third string is a piece."""
    rng = random.Random(seed * 1_000_003 + i)
    if real and i % 3 == 1:
        text = rng.choice(real)
        begin = rng.randrange(len(text))
        return text[begin:begin + rng.randint(1, 400)]
    if i % 50 == 0:
        return rng.choice(SENTENCES)
    joint = rng.choice(["", "", " ", " ", "\n"])
    return joint.join(part(rng, special) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4, 6, 9])))
