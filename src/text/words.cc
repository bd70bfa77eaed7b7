// Scanners of the pre-tokenizer families. Each does what the regular expression above it does, without backtracking.
#include "text/words.h"

#include <algorithm>
#include <iterator>

namespace gale::text {
namespace {

constexpr CharMask not_plain = mask_space | mask_letter | mask_number;

struct Char {
  uint32_t point = 0;
  CharMask mask = 0;  // 0: no character, the piece ends here
  size_t length = 0;
};

constexpr bool is_newline(const Char& c) {
  return c.point == '\r' || c.point == '\n';
}

// The characters of one piece of text. `Border` says which characters belong to no piece (an earlier pass of the
// rule cut them out); to the scanner they look like the end of the text.
template <class Border>
struct Piece {
  std::string_view text;
  const CharTable* table;
  Border border;

  Char raw(size_t pos) const {
    if (pos >= text.size()) return {};
    const auto* p = reinterpret_cast<const uint8_t*>(text.data()) + pos;
    if (p[0] < 0x80) return {p[0], table->mask(p[0]), 1};
    const Utf8Char c = decode_utf8(text.substr(pos));
    return c.length > 0 ? Char{c.point, table->mask(c.point), c.length} : Char{0xFFFD, mask_symbol, 1};
  }
  Char at(size_t pos) const {
    const Char c = raw(pos);
    return c.mask != 0 && border(c) ? Char{} : c;
  }
  // End of the run of characters of these classes from `pos` on.
  size_t run(size_t pos, CharMask mask, size_t at_most = SIZE_MAX) const {
    for (; at_most > 0; --at_most) {
      const Char c = at(pos);
      if ((c.mask & mask) == 0) break;
      pos += c.length;
    }
    return pos;
  }
  size_t run_of(size_t pos, std::string_view characters) const {
    while (pos < text.size() && characters.find(text[pos]) != std::string_view::npos) ++pos;
    return pos;
  }
};

constexpr auto no_border = [](const Char&) { return false; };
constexpr auto digit_border = [](const Char& c) { return (c.mask & mask_number) != 0; };
constexpr auto punctuation_border = [](const Char& c) {
  return (c.mask & mask_punctuation) != 0 ||
         (c.point < 0x80 && std::string_view("$+<=>^~|").find(static_cast<char>(c.point)) != std::string_view::npos);
};
constexpr auto is_cjk = [](const Char& c) {
  return (c.point >= 0x4E00 && c.point <= 0x9FA5) || (c.point >= 0x3040 && c.point <= 0x30FF);
};
constexpr auto deepseek_border = [](const Char& c) { return (c.mask & mask_number) != 0 || is_cjk(c); };

// 's 't 're 've 'm 'll 'd at `pos`: its length, or 0.
size_t contraction(std::string_view text, size_t pos, bool any_case) {
  if (pos + 1 >= text.size() || text[pos] != '\'') return 0;
  if (any_case && text.substr(pos + 1).starts_with("\xC5\xBF")) return 3;  // U+017F is a lower case of S
  const auto letter = [&](size_t i) {
    const char c = i < text.size() ? text[i] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  };
  const char first = letter(pos + 1);
  const char second = letter(pos + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return 3;
  return 0;
}

// \s+(?!\S)|\s+ from the start of a run of spaces.
template <class P>
size_t spaces(const P& piece, size_t pos) {
  size_t last = pos;  // start of the last space of the run
  size_t end = pos;
  for (Char c = piece.at(end); (c.mask & mask_space) != 0; c = piece.at(end)) {
    last = end;
    end += c.length;
  }
  return last > pos && piece.at(end).mask != 0 ? last : end;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ from the start of a run of spaces.
template <class P>
size_t spaces_or_lines(const P& piece, size_t pos) {
  size_t after_newline = 0;
  size_t last = pos;
  size_t end = pos;
  for (Char c = piece.at(end); (c.mask & mask_space) != 0; c = piece.at(end)) {
    last = end;
    end += c.length;
    if (is_newline(c)) after_newline = end;
  }
  if (after_newline > 0) return after_newline;
  return last > pos && piece.at(end).mask != 0 ? last : end;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
template <class P>
size_t gpt2_word(const P& piece, size_t pos) {
  const Char first = piece.at(pos);
  if (first.point == '\'') {
    if (const size_t n = contraction(piece.text, pos, false); n > 0) return pos + n;
  }
  const size_t start = pos + (first.point == ' ' ? 1 : 0);
  const CharMask mask = first.point == ' ' ? piece.at(start).mask : first.mask;
  if ((mask & mask_letter) != 0) return piece.run(start, mask_letter);
  if ((mask & mask_number) != 0) return piece.run(start, mask_number);
  if ((mask & ~not_plain) != 0) return piece.run(start, ~not_plain);
  return spaces(piece, pos);
}

struct Llama3Options {
  size_t digits;     // \p{N}{1,digits}
  CharMask letters;  // \p{L} or [\p{L}\p{M}]
};

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?LETTERS+|\p{N}{1,digits}| ?[^\s LETTERS \p{N}]+[\r\n]*|SPACES
template <class P>
size_t llama3_word(const P& piece, size_t pos, const Llama3Options& options) {
  const Char first = piece.at(pos);
  if (first.point == '\'') {
    if (const size_t n = contraction(piece.text, pos, true); n > 0) return pos + n;
  }
  if ((first.mask & options.letters) != 0) return piece.run(pos, options.letters);
  if ((first.mask & mask_number) != 0) return piece.run(pos, mask_number, options.digits);
  const Char second = piece.at(pos + first.length);
  if (!is_newline(first) && (second.mask & options.letters) != 0) return piece.run(pos + first.length, options.letters);
  const CharMask plain = ~(not_plain | options.letters);
  if ((first.mask & plain) != 0) return piece.run_of(piece.run(pos, plain), "\r\n");
  if (first.point == ' ' && (second.mask & plain) != 0) return piece.run_of(piece.run(pos + 1, plain), "\r\n");
  return spaces_or_lines(piece, pos);
}

// UPPER*LOWER+ or else UPPER+LOWER*, from `pos`; 0: neither. `second_form`: only the latter.
template <class P>
size_t cased_run(const P& piece, size_t pos, bool second_form) {
  size_t end = pos;
  size_t after_caseless = 0;  // where LOWER+ can end if no lower-case letter follows the upper run
  Char c = piece.at(end);
  for (; (c.mask & mask_upper) != 0; c = piece.at(end)) {
    end += c.length;
    if ((c.mask & mask_caseless) != 0) after_caseless = end;
  }
  if (second_form) return end > pos ? end : 0;
  if ((c.mask & mask_lower) != 0) return piece.run(end, mask_lower);
  return after_caseless;
}

// [^\r\n\p{L}\p{N}]?UPPER*LOWER+(?i:S7)?|[^\r\n\p{L}\p{N}]?UPPER+LOWER*(?i:S7)?|\p{N}{1,digits}|
// ?[^\s\p{L}\p{N}]+[\r\n/]*|SPACES
template <class P>
size_t gpt4o_word(const P& piece, size_t pos, size_t digits, bool contractions) {
  const Char first = piece.at(pos);
  if ((first.mask & mask_number) != 0) return piece.run(pos, mask_number, digits);
  const bool prefix = !is_newline(first) && (first.mask & (mask_letter | mask_number)) == 0;
  size_t end = 0;
  for (const bool second_form : {false, true}) {
    if (prefix) end = cased_run(piece, pos + first.length, second_form);
    if (end == 0) end = cased_run(piece, pos, second_form);
    if (end > 0) return end + (contractions ? contraction(piece.text, end, true) : 0);
  }
  if ((first.mask & ~not_plain) != 0) return piece.run_of(piece.run(pos, ~not_plain), "\r\n/");
  if (first.point == ' ' && (piece.at(pos + 1).mask & ~not_plain) != 0) {
    return piece.run_of(piece.run(pos + 1, ~not_plain), "\r\n/");
  }
  return spaces_or_lines(piece, pos);
}

// Third pass of deepseek-v3 at `pos`: ASCII punctuation followed by [A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
//  ?[\p{P}\p{S}]+[\r\n]*|SPACES. 0: no alternative matches here.
template <class P>
size_t deepseek_match(const P& piece, size_t pos) {
  constexpr CharMask letters = mask_letter | mask_mark;
  constexpr CharMask signs = mask_punctuation | mask_symbol;
  const auto is_ascii_letter = [](const Char& c) { return c.point < 0x80 && (c.mask & mask_letter) != 0; };
  const Char first = piece.at(pos);
  const Char second = piece.at(pos + first.length);
  if (first.point < 0x80 && (first.mask & signs) != 0 && is_ascii_letter(second)) {
    size_t end = pos + 1;
    for (Char c = second; is_ascii_letter(c); c = piece.at(end)) ++end;
    return end;
  }
  if ((first.mask & letters) != 0) return piece.run(pos, letters);
  if (!is_newline(first) && (first.mask & signs) == 0 && (second.mask & letters) != 0) {
    return piece.run(pos + first.length, letters);
  }
  if ((first.mask & signs) != 0) return piece.run_of(piece.run(pos, signs), "\r\n");
  if (first.point == ' ' && (second.mask & signs) != 0) return piece.run_of(piece.run(pos + 1, signs), "\r\n");
  if ((first.mask & mask_space) != 0) return spaces_or_lines(piece, pos);
  return 0;
}

size_t deepseek_word(std::string_view text, const CharTable* table, size_t pos) {
  const Piece<decltype(deepseek_border)> piece{text, table, deepseek_border};
  Char c = piece.raw(pos);
  if ((c.mask & mask_number) != 0) {
    size_t end = pos;
    for (int n = 0; n < 3 && (c.mask & mask_number) != 0; ++n, c = piece.raw(end)) end += c.length;
    return end;
  }
  if (is_cjk(c)) {
    size_t end = pos;
    for (; c.mask != 0 && is_cjk(c); c = piece.raw(end)) end += c.length;
    return end;
  }
  if (const size_t end = deepseek_match(piece, pos); end > 0) return end;
  // What no alternative takes stays together up to the next match.
  size_t end = pos;
  do end += piece.at(end).length;
  while (piece.at(end).mask != 0 && deepseek_match(piece, end) == 0);
  return end;
}

// Four passes: [\p{P}$+<=>^~|]+ ; gpt-2 ; \p{N}+ ; [0-9][0-9][0-9]
size_t fallback_word(std::string_view text, const CharTable* table, size_t pos) {
  const Piece<decltype(punctuation_border)> piece{text, table, punctuation_border};
  Char c = piece.raw(pos);
  if (punctuation_border(c)) {
    size_t end = pos;
    for (; c.mask != 0 && punctuation_border(c); c = piece.raw(end)) end += c.length;
    return end;
  }
  if (c.point == ' ' && (piece.at(pos + 1).mask & mask_number) != 0) return pos + 1;
  if ((c.mask & mask_number) == 0) return gpt2_word(piece, pos);
  const auto three_digits = [&](size_t at) {
    return text.size() - at >= 3 &&
           std::all_of(text.begin() + at, text.begin() + at + 3, [](char d) { return d >= '0' && d <= '9'; });
  };
  if (three_digits(pos)) return pos + 3;
  size_t end = pos;
  do end += piece.at(end).length;
  while ((piece.at(end).mask & mask_number) != 0 && !three_digits(end));
  return end;
}

// [^\n]+|\n+
size_t newline_word(std::string_view text, size_t pos) {
  const size_t end = text[pos] == '\n' ? text.find_first_not_of('\n', pos) : text.find('\n', pos);
  return std::min(end, text.size());
}

constexpr PreTokenizer gpt2_names(std::string_view name) {
  return {name, WordRule::gpt2};
}
constexpr PreTokenizer digit_names(std::string_view name) {
  return {name, WordRule::digits_gpt2};
}
constexpr PreTokenizer whole_llama3(std::string_view name) {
  return {name, WordRule::llama3, true, true};
}

// Names that files write in tokenizer.ggml.pre, by family.
constexpr PreTokenizer pre_tokenizers[] = {
    {"default", WordRule::fallback},
    gpt2_names("gpt-2"),
    gpt2_names("phi-2"),
    gpt2_names("mpt"),
    gpt2_names("olmo"),
    gpt2_names("jais"),
    gpt2_names("trillion"),
    gpt2_names("jina-es"),
    gpt2_names("jina-de"),
    gpt2_names("jina-v2-es"),
    gpt2_names("jina-v2-de"),
    gpt2_names("jina-v1-en"),
    gpt2_names("jina-v2-code"),
    gpt2_names("roberta-bpe"),
    gpt2_names("gigachat"),
    gpt2_names("a.x-4.0"),
    gpt2_names("mellum"),
    gpt2_names("modern-bert"),
    gpt2_names("exaone4"),
    gpt2_names("granite-docling"),
    digit_names("smollm"),
    digit_names("starcoder"),
    digit_names("refact"),
    digit_names("command-r"),
    digit_names("codeshell"),
    digit_names("exaone"),
    digit_names("minerva-7b"),
    digit_names("mellum2"),
    whole_llama3("llama-bpe"),
    whole_llama3("llama3"),
    whole_llama3("llama-v3"),
    whole_llama3("falcon3"),
    whole_llama3("falcon-h1"),
    whole_llama3("pixtral"),
    whole_llama3("midm-2.0"),
    whole_llama3("lfm2"),
    whole_llama3("jina-v5-nano"),
    {"dbrx", WordRule::llama3},
    {"smaug-bpe", WordRule::llama3},
    {"glm4", WordRule::llama3, false, false, false},
    {"chatglm-bpe", WordRule::llama3, false, false, false},
    {"qwen2", WordRule::qwen2, false, false, true, Normalization::nfc},
    {"deepseek-r1-qwen", WordRule::qwen2},
    {"stablelm2", WordRule::qwen2},
    {"hunyuan", WordRule::qwen2},
    {"solar-open", WordRule::qwen2},
    {"megrez", WordRule::qwen2},
    {"kormo", WordRule::qwen2},
    {"f2llmv2", WordRule::qwen2},
    {"grok-2", WordRule::qwen2},
    {"qwen35", WordRule::qwen35, false, false, true, Normalization::nfc},
    {"gpt-4o", WordRule::gpt4o},
    {"llama4", WordRule::gpt4o},
    {"minimax-m2", WordRule::gpt4o},
    {"kanana2", WordRule::gpt4o},
    {"talkie", WordRule::gpt4o},
    {"tekken", WordRule::tekken, true, true},
    {"deepseek-v3", WordRule::deepseek3},
    {"hunyuan-dense", WordRule::deepseek3},
    {"joyai-llm", WordRule::deepseek3},
    {"hy_v4", WordRule::deepseek3},
};

}  // namespace

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  const auto* found = std::find_if(std::begin(pre_tokenizers), std::end(pre_tokenizers),
                                   [&](const PreTokenizer& p) { return p.name == name; });
  return found == std::end(pre_tokenizers) ? nullptr : found;
}

const PreTokenizer* find_pre_tokenizer(WordRule rule, bool whole_words, Normalization normalization) {
  const auto* found = std::find_if(std::begin(pre_tokenizers), std::end(pre_tokenizers), [&](const PreTokenizer& p) {
    return p.rule == rule && p.whole_words == whole_words && p.normalization == normalization && p.has_bos;
  });
  return found == std::end(pre_tokenizers) ? nullptr : found;
}

size_t WordScanner::next(size_t begin) const {
  const Piece<decltype(no_border)> piece{text_, table_, no_border};
  switch (rule_) {
    case WordRule::gpt2:
      return gpt2_word(piece, begin);
    case WordRule::digits_gpt2: {
      const Piece<decltype(digit_border)> between{text_, table_, digit_border};
      const Char c = piece.raw(begin);
      return digit_border(c) ? begin + c.length : gpt2_word(between, begin);
    }
    case WordRule::llama3:
      return llama3_word(piece, begin, {3, mask_letter});
    case WordRule::qwen2:
      return llama3_word(piece, begin, {1, mask_letter});
    case WordRule::qwen35:
      return llama3_word(piece, begin, {1, mask_letter | mask_mark});
    case WordRule::gpt4o:
      return gpt4o_word(piece, begin, 3, true);
    case WordRule::tekken:
      return gpt4o_word(piece, begin, 1, false);
    case WordRule::deepseek3:
      return deepseek_word(text_, table_, begin);
    case WordRule::fallback:
      return fallback_word(text_, table_, begin);
    case WordRule::newlines:
      return newline_word(text_, begin);
    case WordRule::whole:
    case WordRule::spaces:
    case WordRule::patterns:
      break;
  }
  return text_.size();
}

}  // namespace gale::text
