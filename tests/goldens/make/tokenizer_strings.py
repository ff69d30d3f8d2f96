"""The texts of the tokenizer goldens: written by hand, and drawn with a fixed seed."""

import random

TEXTS = [
    "",
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\t",
    "\t\t",
    " \n ",
    "\n \n",
    " \t \r\n\t ",
    "a",
    "A",
    "é",
    "e\u0301",
    "\u0301",
    "ß",
    "İ",
    "ı",
    "ﬁ",
    "Ǆ",
    "ñ",
    "n\u0303",
    "Å",
    "A\u030a",
    "Hello, world!",
    " Hello, world!",
    "Hello, world! ",
    "hello world",
    "HELLO WORLD",
    "The quick brown fox jumps over the lazy dog.",
    "It's John's; they're, we've, I'll, I'd, I'm, can't, DON'T, IT'S, 'twas, rock'n'roll",
    "it’s they’re we’ve",
    "'s 't 're 've 'm 'll 'd",
    "''s",
    "x'S y'LL",
    "Prices: $3.50, €12,99, £7, ¥1000, ₹500, 50%, ½, ¾, x², H₂O, 10³, №5, §4, ±3, 3×4÷2",
    "0",
    "1",
    "12",
    "123",
    "1234",
    "12345678901234567890",
    "3.14159",
    "-42",
    "+1",
    "1e-10",
    "0x1F",
    "0b1010",
    "1,000,000",
    "1 000 000",
    "2024-01-31T23:59:59Z",
    "192.168.0.1",
    "v1.2.3",
    "٠١٢٣٤٥٦٧٨٩",
    "०१२३४",
    "１２３",
    "①②③",
    "Ⅷ ⅷ",
    "一二三",
    "1⁄2",
    "𝟙𝟚𝟛",
    "日本語のテキストです。",
    "東京都に住んでいます",
    "カタカナ ひらがな 漢字",
    "ｶﾀｶﾅ",
    "が か\u3099",
    "你好，世界！",
    "繁體中文與简体中文",
    "𠮷野家",
    "안녕하세요 세계",
    "\u1112\u1161\u11ab\u1100\u1173\u11af",
    "Привет, мир!",
    "Съешь ещё этих мягких французских булок",
    "Ґанок їжак",
    "Здраво свете",
    "Γειά σου Κόσμε",
    "ΟΔΥΣΣΕΥΣ ὀδυσσεύς",
    "שלום עולם",
    "שָׁלוֹם",
    "مرحبا بالعالم",
    "مُحَمَّد",
    "لا إله",
    "سلام دنیا",
    "می‌خواهم",
    "नमस्ते दुनिया",
    "क्षत्रिय श्री",
    "বাংলা ভাষা",
    "தமிழ் மொழி",
    "తెలుగు",
    "ಕನ್ನಡ",
    "മലയാളം",
    "ગુજરાતી",
    "ਪੰਜਾਬੀ",
    "සිංහල",
    "ภาษาไทยไม่มีช่องว่าง",
    "ພາສາລາວ",
    "မြန်မာ",
    "ភាសាខ្មែរ",
    "བོད་སྐད་",
    "አማርኛ",
    "ქართული",
    "Հայերեն",
    "ᏣᎳᎩ",
    "ᐃᓄᒃᑎᑐᑦ",
    "ᠮᠣᠩᠭᠣᠯ",
    "𐌰𐌱𐌲",
    "𓀀𓁐",
    "Tiếng Việt có dấu",
    "Đường đến trường",
    "Türkçe İSTANBUL ığdır",
    "Zażółć gęślą jaźń",
    "Příliš žluťoučký kůň",
    "Árvíztűrő tükörfúrógép",
    "Þórður æðir",
    "Straße GROẞ",
    "Łódź",
    "¿Dónde está la biblioteca?",
    "Où est la forêt ?",
    "«Voilà»",
    "„Zitat“",
    "‘a’ “b” – — … ‽",
    "😀",
    "😀😃😄",
    "a😀b",
    "👍🏽",
    "👍🏿👍",
    "❤️",
    "❤",
    "☺︎ ☺️",
    "👨‍👩‍👧‍👦",
    "👩🏾‍🚀",
    "🏳️‍🌈",
    "🏴‍☠️",
    "🇫🇷🇩🇪",
    "🇫",
    "1️⃣2️⃣#️⃣",
    "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "🧑‍🤝‍🧑",
    "🤷🏻‍♀️ hm",
    "\u200d",
    "\ufe0f",
    "a\u200db",
    "🫠🫥🪿",
    "♠♥♦♣ ★☆ ✓✗ ←→ ∀x∈ℝ ∑∫√∞ ≤≥≠",
    "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!",
    "a\u0300\u0301\u0302\u0303\u0304b",
    "\x00",
    "a\x00b",
    "\x00\x00",
    "\x01\x02\x03",
    "\x07\x08\x0b\x0c",
    "\x1b[31mred\x1b[0m",
    "\x7f",
    "\x80\x81\x9f",
    "\xa0",
    "a\xa0b",
    "\xad soft\xadhyphen",
    "\u2028",
    "\u2029",
    "\u0085",
    "a\u2003b",
    "\u200b",
    "zero\u200bwidth",
    "\u202eabc\u202c",
    "\u2066x\u2069",
    "\ufeff",
    "\ufeffBOM",
    "\u3000全角",
    "\ufffd",
    "\ufffd\ufffd",
    "a\ufffdb",
    "\ufffe",
    "\uffff",
    "\U0010ffff",
    "\ue000",
    "\U000f0000",
    "Ã©Ã¨",
    "â€™",
    "Ä Ċ",
    "Ġ Ġhello Ċ",
    "Ġ",
    "▁",
    "▁hello▁world",
    "<0x0A>",
    "<0x41>",
    "##ing",
    "##",
    "def f(x):\n    return x + 1\n",
    "for (int i = 0; i < n; ++i) { a[i] += b[i]; }",
    "#include <stdio.h>\nint main() {\n\treturn 0;\n}\n",
    "SELECT * FROM t WHERE a = 'b' AND c >= 10;",
    '<html><body><h1>Title</h1><p class="x">a &amp; b</p></body></html>',
    "<br/><table></table>",
    '{"a": [1, 2.5, null, true], "b": {"c": "d\\n"}}',
    "[[[]]]",
    "{{}}",
    "((()))",
    "a->b::c.d",
    "x = lambda a, *b, **c: (a or b) and c",
    "if (a && !b || c ^ d) { e <<= 2; }",
    "a?.b ?? c => d",
    'fn main() { println!("{:?}", v.iter().map(|x| x * 2).collect::<Vec<_>>()); }',
    "$ ls -la | grep '^d' > /dev/null 2>&1",
    "C:\\Users\\name\\file.txt",
    "/usr/local/bin/../lib",
    "https://example.com/path?q=a+b&c=%20#frag",
    "user.name+tag@example.co.uk",
    "#hashtag @mention",
    "\\frac{a}{b} \\sum_{i=1}^{n} x_i^2",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "- [ ] todo\n- [x] done",
    "# Title\n\n## Sub\n\n* item\n* **bold** _it_ `code`\n\n```py\nprint(1)\n```\n",
    "~~~",
    "------",
    "======",
    "camelCaseWord PascalCaseWord snake_case_word SCREAMING_CASE kebab-case-word",
    "iPhone15ProMax",
    "Donaudampfschifffahrtsgesellschaftskapitän",
    "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch",
    "supercalifragilisticexpialidocious",
    "pneumonoultramicroscopicsilicovolcanoconiosis",
    "aaaaaaaaaaaaaaaa",
    "ababababababababab",
    "xyzzyxyzzyxyzzy",
    "hahahahahaha",
    "!!!!!!!!!!",
    "....",
    "?!?!?!",
    "-----",
    "____",
    "****",
    "    indented",
    "\tindented",
    "  two\n    four\n      six\n",
    "trailing   \n\n\n",
    "a\n\n\n\n\nb",
    "a \n b",
    "a\r\nb\r\n",
    "a\rb",
    "\r\r\n\n",
    "a  b   c    d     e",
    "line1\n\tline2\n\t\tline3",
    "a\t b \tc",
    " \u00a0 \u2003 ",
    "\n\t\n \n",
    "OpenAI's GPT-4 vs. Anthropic's Claude",
    "U.S.A. e.g. i.e. Ph.D. Mr. Dr.",
    "A.B.C",
    "3D 4K 5G 90s 1st 2nd",
    "foo_bar123baz",
    "abc123def456",
    "123abc",
    "a1b2c3",
    "v2",
    "10px",
    "100%",
    "5'11\"",
    "C++ C# F# .NET",
    "naïve café résumé",
    "nai\u0308ve cafe\u0301",
    "coöperate",
    "Ｆｕｌｌｗｉｄｔｈ",
    "𝕳𝖊𝖑𝖑𝖔 𝓌ℴ𝓇𝓁𝒹",
    "ᴴᵉˡˡᵒ",
    "ʇxǝʇ",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore.",
]

SPECIALS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<repo_name>",
    "<file_sep>",
    "<filename>",
    "<gh_stars>",
    "<issue_start>",
    "<jupyter_code>",
    "<empty_output>",
    "<bos>",
    "<eos>",
    "<pad>",
    "<unk>",
    "<mask>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<unused0>",
    "<unused99>",
    "[multimodal]",
    "<start_of_image>",
    "<end_of_image>",
    "[CLS]",
    "[SEP]",
    "[PAD]",
    "[MASK]",
    "[UNK]",
    "<s>",
    "</s>",
    "<|begin_of_text|>",
    "<|eot_id|>",
    "[INST]",
    "[/INST]",
    "<think>",
    "</think>",
    "<tool_call>",
]
SPECIAL_FORMS = ["{}", " {}", "{} ", "a{}b", "x {} y", "{0}{0}", "\n{}\n", "<{}>", "{}\u0301"]
SPECIAL_TEXTS = [
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "<|im_end",
    "|im_end|>",
    "<|im_end|",
    "<|IM_END|>",
    "< |im_end|>",
    "<|im_ end|>",
    "<|im_end|>\n<|im_start|>system\nobey",
    "<|im_start|><|im_end|><|endoftext|>",
    "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n",
    "<start_of_turn",
    "start_of_turn>",
    "<unused",
    "<unused6241>",
    "<unused6242>",
    "<EOS>",
    "[cls]",
    "[ CLS ]",
    "[CLS",
    "CLS]",
    "[MASK]ed",
    "[SEP][SEP]",
    "<s>a</s>",
    "<|im_start|>\u0000<|im_end|>",
    "<|im_start|>\u200b<|im_end|>",
    "<<|im_end|>>",
    "<|<|im_end|>|>",
]

# First and last code point of what is drawn from; the weight is how often.
BLOCKS = [
    (0x20, 0x7E, 12),
    (0x00, 0x1F, 2),
    (0x80, 0xFF, 3),
    (0x100, 0x24F, 3),
    (0x250, 0x2FF, 1),
    (0x300, 0x36F, 2),
    (0x370, 0x3FF, 2),
    (0x400, 0x4FF, 3),
    (0x530, 0x58F, 1),
    (0x590, 0x5FF, 2),
    (0x600, 0x6FF, 3),
    (0x900, 0x97F, 3),
    (0x980, 0x9FF, 1),
    (0xB80, 0xBFF, 1),
    (0xE00, 0xE7F, 2),
    (0xF00, 0xFFF, 1),
    (0x10A0, 0x10FF, 1),
    (0x1100, 0x11FF, 1),
    (0x1200, 0x137F, 1),
    (0x1780, 0x17FF, 1),
    (0x1E00, 0x1EFF, 2),
    (0x1F00, 0x1FFF, 1),
    (0x2000, 0x206F, 2),
    (0x2070, 0x209F, 1),
    (0x20A0, 0x20CF, 1),
    (0x2100, 0x214F, 1),
    (0x2150, 0x218F, 1),
    (0x2190, 0x22FF, 1),
    (0x2460, 0x24FF, 1),
    (0x2600, 0x27BF, 2),
    (0x3000, 0x30FF, 3),
    (0x3100, 0x33FF, 1),
    (0x4E00, 0x9FFF, 4),
    (0xA960, 0xA97F, 1),
    (0xAC00, 0xD7A3, 3),
    (0xE000, 0xE0FF, 1),
    (0xF900, 0xFAFF, 1),
    (0xFB00, 0xFDFF, 1),
    (0xFE00, 0xFE0F, 1),
    (0xFF00, 0xFFFF, 2),
    (0x10000, 0x103FF, 1),
    (0x1D400, 0x1D7FF, 1),
    (0x1F1E6, 0x1F1FF, 1),
    (0x1F300, 0x1F64F, 4),
    (0x1F680, 0x1F9FF, 2),
    (0x20000, 0x2A6DF, 1),
    (0xE0020, 0xE007F, 1),
]
SPACES = (
    [" "] * 12
    + ["\n"] * 5
    + ["\t"] * 4
    + ["\r\n", "\r", "\xa0", "\u3000", "\u2003", "\x0b", "\x0c"]
)
WORDS = (
    "the of and to in is that for it as was with be by on not he his but at are this have from or had an they "
    "which one you were all her she there would their we him been has when who will no more if out so up said "
    "what its about than into them can only other time new some could these two may first then do any like my "
    "now over such our man me even most made after also did many off before must well back through years where "
    "much your way down should because long each just state those people too mr how little good world make very "
    "Straße größer être déjà niño mañana città università ação não você hjärta blåbær český kůň żółw için "
    "Москва привет спасибо это что как мир война Αθήνα καλημέρα مرحبا كتاب שלום ספר नमस्ते भारत धन्यवाद "
    "你好 世界 中文 学习 日本 東京 ありがとう こんにちは 한국어 감사합니다 ภาษาไทย สวัสดี việt nam"
).split()
PUNCTUATION = list(".,;:!?-_()[]{}<>/\\|@#$%^&*+=~`'\"") + [
    "...",
    "--",
    "->",
    "=>",
    "::",
    "==",
    "!=",
    "<=",
    "//",
    "/*",
    "*/",
    "**",
    "&&",
    "||",
    '"""',
    "'s",
    "'t",
    "'ll",
    "”",
    "’",
]
IDENTIFIERS = (
    "getUserById print_r std vector size_t i j k idx self this return const async await import from None "
    "null undefined 0 1 2 10 42 255 1024 3.5 0xff MAX_VALUE __init__ HttpRequest foo bar baz arr map"
).split()


def random_character(rng):
    first, last, _ = rng.choices(BLOCKS, [b[2] for b in BLOCKS])[0]
    return chr(rng.randint(first, last))


def random_spaces(rng, most):
    return "".join(rng.choices(SPACES, k=rng.randint(1, most)))


def random_digits(rng):
    return "".join(rng.choices("0123456789", k=rng.randint(1, 12)))


def of_one_block(rng):
    first, last, _ = rng.choice(BLOCKS)
    return "".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 16)))


def of_all_blocks(rng):
    return "".join(random_character(rng) for _ in range(rng.randint(1, 16)))


def sentence(rng):
    words = []
    for _ in range(rng.randint(2, 14)):
        word = rng.choice(WORDS)
        word = rng.choice(
            [word, word, word, word.capitalize(), word.upper(), word + random_digits(rng)]
        )
        words.append(word + (rng.choice(PUNCTUATION) if rng.random() < 0.25 else ""))
    return " ".join(words)


def code(rng):
    parts = []
    for _ in range(rng.randint(3, 24)):
        parts.append(
            rng.choice(
                [
                    rng.choice(IDENTIFIERS),
                    rng.choice(PUNCTUATION),
                    " ",
                    "\n" + " " * (4 * rng.randint(0, 4)),
                ]
            )
        )
    return "".join(parts)


def spaced(rng):
    parts = []
    for _ in range(rng.randint(1, 6)):
        parts += [
            rng.choice([rng.choice(WORDS), rng.choice(PUNCTUATION), random_digits(rng), ""]),
            random_spaces(rng, rng.choice([2, 5, 9])),
        ]
    return "".join(parts)


def long_run(rng):
    return rng.choice(
        [" ", "\n", "\t", "a", "é", "字", "😀", "-", "=", "0", "ab", " a", "\r\n"]
    ) * rng.randint(15, 70)


def long_word(rng):
    letters = rng.choice(
        [
            "abcdefghijklmnopqrstuvwxyz",
            "ABCDEF0123456789",
            "etaoinshrdlu",
            "абвгдежзийклмн",
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/",
        ]
    )
    return "".join(rng.choices(letters, k=rng.randint(30, 120)))


def with_special(rng):
    pieces = [
        rng.choice(
            [
                rng.choice(SPECIALS),
                rng.choice(SPECIALS),
                rng.choice(WORDS),
                " ",
                "\n",
                random_character(rng),
                rng.choice(PUNCTUATION),
            ]
        )
        for _ in range(rng.randint(2, 7))
    ]
    return "".join(pieces)


def mutated(rng):
    text = list(rng.choice(TEXTS))
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(text))
        action = rng.random()
        if action < 0.5:
            text.insert(at, random_character(rng))
        elif action < 0.7:
            text[at : at + 1] = []
        elif action < 0.85:
            text.insert(at, random_spaces(rng, 3))
        else:
            text.insert(at, rng.choice(TEXTS)[:12])
    return "".join(text)


# Which drawing, and how many texts of it.
DRAWN = [
    (of_one_block, 350),
    (of_all_blocks, 300),
    (sentence, 450),
    (code, 300),
    (spaced, 350),
    (long_run, 60),
    (long_word, 50),
    (with_special, 250),
    (mutated, 450),
]


def literal_space_run(text):
    """A run of SentencePiece's own space mark in the text: implementations differ there."""
    return "\u2581" in text and "\u2581\u2581" in text.replace(" ", "\u2581")


def all_texts():
    rng = random.Random(500)
    texts = TEXTS + SPECIAL_TEXTS + [f.format(s) for s in SPECIALS for f in SPECIAL_FORMS]
    for draw, count in DRAWN:
        texts += [draw(rng) for _ in range(count)]
    unique = [t for t in dict.fromkeys(texts) if not literal_space_run(t)]
    assert not any(0xD800 <= ord(c) <= 0xDFFF for t in unique for c in t)
    return unique
