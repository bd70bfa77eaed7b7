"""Texts that tokenizers are compared on: prose, code, emoji, broken UTF-8, random strings from awkward corners of Unicode."""


PROSE = [
    'The quick brown fox didn\'t jump over the lazy dog\'s 1,234,567 fences; it\'s 3.14159 metres high, they\'ll say. '
    'WE\'VE SHOUTED "STOP!" (twice) -- and I\'M sure you\'re right, he\'d agree.',
    'Übermäßig große Straßenbahnen fahren täglich um 17:45 Uhr über die Brücke, sagt Frau Müller-Lüdenscheidt.',
    'L\'été dernier, j\'ai vu « un garçon » naïf à l\'œil bleu ; où est-il ? Ça coûte 12 500,00 €.',
    '¿Dónde está la montaña? ¡Qué niño más pequeño! El 3º día comió piñones.',
    'Съешь же ещё этих мягких французских булок, да выпей чаю. Ёлка стоит 1500 ₽.',
    'Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί· τι ώρα είναι;',
    '敏捷的棕色狐狸跳过了懒狗。今天是2024年10月5日，天气很好！「引用」、《书名》……',
    'いろはにほへと ちりぬるを。ガギグゲゴ、１２３ＡＢＣ、ﾊﾝｶｸ。東京タワーは高さ333メートルです。',
    '다람쥐 헌 쳇바퀴에 타고파. 2024년 12월 25일, 서울의 날씨는 맑음.',
    'نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ومغلف بجلد أزرق. ١٢٣٤٥',
    'עטלף אבק נס דרך מזגן שהתפוצץ כי חם. שָׁלוֹם עוֹלָם',
    'ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले विष्णुवतार भगवान श्रीराम। १२३',
    'เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน ๑๒๓',
    'Pijamalı hasta yağız şoföre çabucak güvendi. İstanbul\'da ıssız bir yer.',
    'Zażółć gęślą jaźń. Příliš žluťoučký kůň úpěl ďábelské ódy. Nguyễn Văn Ánh đọc sách.',
]
CODE = [
    'def f(x):\n    if x->y != 0x1F:\n\treturn [i**2 for i in range(10)]  # comment\n\n\n    else:\n        pass\n',
    '#include <vector>\nint main() {\r\n  std::vector<int> v{1,2,3};\r\n  for (auto&& x : v) { printf("%d\\n", x); }\r\n}\r\n',
    '{"id": 12345, "name": "a\\u00e9b", "list": [1.5e-10, null, true], "nested": {"k": []}}',
    '<html><body><table>\n  <tr><td>a  b</td><td>c    d</td></tr>\n</table><code>x</code><s>gone</s> <b>bold</b></body></html>',
    'SELECT * FROM t WHERE a >= 10 AND b <> \'x\';\n\n\n\n-- comment\n\t\t\tEND;',
    '$x = @($y | ?{ $_ -match "^\\d+$" }); \\frac{a}{b} \\sum_{i=0}^{n} x_i^2 && || !== === /* */ // https://a.b/c?d=e&f#g',
]
EMOJI = ['👨‍👩‍👧‍👦 family', '🏳️‍🌈🇩🇪🇫🇷', '👍🏽👍🏿', '☕️🙂', 'e\u0301a\u0308\u200d\u200c', '❤️‍🔥 1️⃣ #️⃣', 'Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢']
SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<bos>', '<eos>', '<pad>', '<unk>', '<start_of_turn>', '<end_of_turn>',
           '<unused0>', '<unused17>', '</s>', '<s>', '<0x0A>', '<mask>', '[multimodal]', '<repo_name>', '<reponame>', '<|', '|>',
           '<start_of_image>', '<unused9', '▁', '▁▁']
BROKEN = [b'\xe6\xad', b'\xff\xfe', b'\xed\xa0\x80', b'\xc0\x80', b'\xf0\x9f\x98', b'\x80', b'\xe0\x80\xaf', b'\xf0\x80\x80\x81',
          b'\xc3', b'\xe2\x96', b'\xf0\x9f', b'\xf9\x80']
CORNERS = [(0x20, 0x7F), (0, 0x20), (0x80, 0x100), (0x100, 0x250), (0x2B0, 0x370), (0x370, 0x400), (0x400, 0x530), (0x590, 0x700),
           (0x900, 0xE80), (0x1100, 0x1200), (0x1680, 0x1681), (0x1E00, 0x2000), (0x2000, 0x2070), (0x2070, 0x2200),
           (0x2460, 0x2500), (0x2580, 0x25A0), (0x2E80, 0x3100), (0x3100, 0x3400), (0x4E00, 0xA000), (0xA640, 0xAB70),
           (0xAC00, 0xD7A4), (0xE000, 0xE010), (0xF900, 0x10000), (0x10000, 0x10400), (0x10400, 0x10800), (0x16A00, 0x17000),
           (0x1D400, 0x1D800), (0x1E900, 0x1E960), (0x1F100, 0x1FB00), (0x20000, 0x20100), (0x30000, 0x30010),
           (0xE0000, 0xE0200), (0x10FF00, 0x110000)]


def random_text(r):
    parts = []
    for _ in range(r.randint(1, 12)):
        kind = r.random()
        if kind < 0.35:
            lo, hi = r.choice(CORNERS)
            parts.append(''.join(chr(r.randrange(lo, hi)) for _ in range(r.randint(1, 6))).encode('utf-8', 'surrogatepass'))
        elif kind < 0.5:
            parts.append(''.join(r.choice("aZ'sStTlLrevVmMdD019 \n\r\t.,-_/()") for _ in range(r.randint(1, 8))).encode())
        elif kind < 0.6:
            parts.append(r.choice([' ', '\n', '\t', '\r\n', '\u00a0', '\u3000', '\u2028', '\x0b', '\x85']).encode() * r.randint(1, 9))
        elif kind < 0.7:
            parts.append(r.choice(PROSE + CODE + EMOJI)[:r.randint(1, 40)].encode())
        elif kind < 0.78:
            parts.append(r.choice(SPECIAL).encode())
        elif kind < 0.85:
            parts.append(r.choice(BROKEN))
        elif kind < 0.9:
            parts.append(bytes(r.randrange(256) for _ in range(r.randint(1, 6))))
        else:
            parts.append(r.choice([' ', '▁', '1', 'A', '"', '中', 'é', '=', '>']).encode() * r.randint(1, 70))
    return b''.join(parts)


def mixed_text(r, size):
    parts, length = [], 0
    while length < size:
        pick = r.random()
        part = (r.choice(PROSE) + r.choice([' ', '\n', '\n\n', '  ']) if pick < 0.6 else
                r.choice(CODE) + '\n' if pick < 0.85 else r.choice(EMOJI) + ' ' if pick < 0.95 else ' ' * r.randint(2, 80)).encode()
        words = part.split(b' ')
        if pick < 0.6 and r.random() < 0.5:
            r.shuffle(words)
        part = b' '.join(words)
        parts.append(part)
        length += len(part)
        if r.random() < 0.03:
            parts.append(r.choice(BROKEN) + bytes([r.randrange(1, 32)]))
    return b''.join(parts)


def beyond_unicode(text):
    """Four-byte forms above U+10FFFF: llama.cpp ends the process on them."""
    return any(text[i] >> 3 == 0x1E and all(b >> 6 == 2 for b in text[i + 1:i + 4]) and len(text) >= i + 4
               and (text[i] & 7) << 18 | (text[i + 1] & 63) << 12 > 0x10FFFF for i in range(len(text)))


def repaired(text):
    """The rule of docs/tokenizers.md for byte-level vocabularies: a byte that belongs to no character is U+FFFD, over-long
    forms become the shortest, surrogates pass. Returns a str."""
    out, i = [], 0
    while i < len(text):
        first = text[i]
        length = 1 if first < 0x80 else 0 if first < 0xC0 or first >= 0xF8 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
        tail = text[i + 1:i + length]
        point = first & (0x7F >> length if length > 1 else 0x7F)
        for b in tail:
            point = point << 6 | b & 63
        good = length > 0 and len(tail) == length - 1 and all(b >> 6 == 2 for b in tail) and point <= 0x10FFFF
        out.append(chr(point) if good else '\ufffd')
        i += length if good else 1
    return ''.join(out)


def has_surrogates(text):
    return any(0xD800 <= ord(c) < 0xE000 for c in text)


def every_character():
    """Texts with each character of the planes in use between letters, behind a space, doubled and before a digit: where two
    libraries' Unicode versions differ, so do the words."""
    points = [p for p in [*range(0x32400), *range(0xE0000, 0xE0200)] if not 0xD800 <= p < 0xE000]
    return [''.join(f'x{chr(p)}x {chr(p)}{chr(p)}1' for p in points[i:i + 16]).encode() for i in range(0, len(points), 16)]


def standard_texts(r, size, count):
    """About `size` bytes of mixed text in pieces of 32 KB, every fixed text, long runs, and `count` random strings."""
    chunk = min(1 << 15, size)
    texts = [mixed_text(r, chunk) for _ in range(size // chunk)]
    texts += [t.encode() for t in PROSE + CODE + EMOJI + SPECIAL] + BROKEN
    texts += [b'A' * 9400, b' ' * 100000, b'_' * 50000, b'x' * 5000, '中'.encode() * 3000]
    return texts + [random_text(r) for _ in range(count)]
