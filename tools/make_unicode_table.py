"""Writes src/text/unicode_table.cc: the class of every Unicode code point as sorted ranges.

usage: python3 tools/make_unicode_table.py > src/text/unicode_table.cc
Uses the package unicodedata2 if it is installed (so that the Unicode version can be chosen), else Python's own table.
"""
try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

# The Unicode property White_Space (PropList.txt); it has not changed since Unicode 6.3.
SPACES = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
NAMES = ['other', 'space', 'upper', 'lower', 'title', 'modifier', 'other_letter', 'mark', 'number', 'punctuation', 'symbol']
LETTERS = {'Lu': 2, 'Ll': 3, 'Lt': 4, 'Lm': 5, 'Lo': 6}
GROUPS = {'M': 7, 'N': 8, 'P': 9, 'S': 10}


def class_of(point):
    if point in SPACES:
        return 1
    category = unicodedata.category(chr(point))
    return LETTERS.get(category) or GROUPS.get(category[0], 0)


def main():
    ranges, last = [], None
    for point in range(0x110000):
        now = class_of(point)
        if now != last:
            ranges.append(point << 8 | now)
            last = now
    print('// Classes of all Unicode code points as ranges. Made by tools/make_unicode_table.py; do not edit.')
    print('#include "text/unicode.h"\n')
    print('namespace gale::text {\n')
    print(f'const char* const unicode_version = "{unicodedata.unidata_version}";\n')
    print('// First code point of a range * 256 + CharClass; a range ends where the next begins.')
    print('// Classes: ' + ', '.join(f'{i} {n}' for i, n in list(enumerate(NAMES))[:6]) + ',')
    print('// ' + ', '.join(f'{i} {n}' for i, n in list(enumerate(NAMES))[6:]) + '.')
    print('// clang-format off')
    print('const uint32_t unicode_ranges[] = {')
    line = ' '
    for r in ranges:
        item = f' 0x{r:x},'
        if len(line) + len(item) > 120:
            print(line)
            line = ' '
        line += item
    print(line)
    print('};')
    print('// clang-format on')
    print(f'const size_t unicode_range_count = {len(ranges)};\n')
    print('}  // namespace gale::text')


main()
