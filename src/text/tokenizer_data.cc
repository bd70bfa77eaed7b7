// Filling the tables of a tokenizer from the facts of a model file.
#include "text/tokenizer_data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "base/log.h"

namespace gale::text {
namespace {

constexpr std::string_view space_mark = "\xE2\x96\x81";  // U+2581
// A longer one is never looked for in text: it could only be an attempt to fill the memory.
constexpr size_t longest_special = 1024;

// GPT-2 writes each byte as one printable character: the printable ones of Latin-1 stand for themselves, the other 68
// bytes are U+0100, U+0101 ... in order. -1: no byte.
constexpr std::array<int16_t, 0x144> make_byte_alphabet() {
  std::array<int16_t, 0x144> table{};
  for (auto& entry : table) entry = -1;
  size_t next = 0x100;
  for (int16_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
    table[itself ? static_cast<size_t>(byte) : next++] = byte;
  }
  return table;
}
constexpr std::array<int16_t, 0x144> byte_alphabet = make_byte_alphabet();

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// The byte of "<0xAB>"; -1: not of that form.
int byte_of_name(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const int high = hex_digit(text[3]);
  const int low = hex_digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// Higher scores first; never UINT32_MAX, which says "no merge".
uint32_t priority_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 becomes 0
  const uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

Status read_arrays(const VocabularySource& source, TokenizerData& data) {
  const size_t count = source.tokens.size();
  if (count == 0) return fail(ErrorKind::invalid_input, "tokenizer.ggml.tokens: the vocabulary is empty");
  if (count > INT32_MAX)
    return fail(ErrorKind::limit, "tokenizer.ggml.tokens: {} tokens, at most {} are possible", count, INT32_MAX);
  if (!source.kinds.empty() && source.kinds.size() != count) {
    return fail(ErrorKind::invalid_input, "tokenizer.ggml.token_type has {} entries for {} tokens", source.kinds.size(),
                count);
  }
  if (!source.scores.empty() && source.scores.size() != count) {
    return fail(ErrorKind::invalid_input, "tokenizer.ggml.scores has {} entries for {} tokens", source.scores.size(),
                count);
  }
  data.texts.assign(source.tokens.begin(), source.tokens.end());
  data.kinds.assign(count, TokenKind::normal);
  data.shown.assign(count, false);
  for (size_t i = 0; i < source.kinds.size(); ++i) {
    if (source.kinds[i] >= 1 && source.kinds[i] <= 6) data.kinds[i] = static_cast<TokenKind>(source.kinds[i]);
  }
  return {};
}

// Byte-level: decodes all texts to bytes. `on_alphabet[i]` false: token i isn't made of byte characters.
std::vector<bool> decode_texts(TokenizerData& data) {
  size_t total = 0;
  for (const std::string_view text : data.texts) total += text.size();
  data.bytes.resize(total);
  std::vector<bool> on_alphabet(data.texts.size(), true);
  char* out = data.bytes.data();
  data.keys.reserve(data.texts.size());
  for (size_t i = 0; i < data.texts.size(); ++i) {
    const ptrdiff_t size = bytes_of_characters(data.texts[i], out);
    if (size < 0) {
      on_alphabet[i] = false;
      data.off_alphabet.push_back(static_cast<Token>(i));
      data.keys.push_back(data.texts[i]);
    } else {
      data.keys.emplace_back(out, static_cast<size_t>(size));
      out += size;
    }
  }
  return on_alphabet;
}

void fill_table(TokenizerData& data, const std::vector<bool>& usable) {
  data.table.reserve(data.keys.size());
  for (size_t i = 0; i < data.keys.size(); ++i) {
    if (!usable[i] || data.keys[i].empty()) continue;
    data.longest_key = std::max(data.longest_key, data.keys[i].size());
    const auto token = static_cast<Token>(i);
    Token& slot = data.table.slot(data.keys[i], data.keys);
    // Of equal texts the last that text may become wins.
    if (slot < 0 || data.spellable(token)) slot = token;
  }
}

Status fill_merges(const VocabularySource& source, TokenizerData& data) {
  data.merges.reserve(source.merges.size());
  std::string joined;
  Token guess = -1;  // results mostly follow each other in the vocabulary
  for (size_t i = 0; i < source.merges.size(); ++i) {
    const std::string_view merge = source.merges[i];
    const size_t space = merge.find(' ', 1);
    if (merge.empty() || space == std::string_view::npos) {
      return fail(ErrorKind::invalid_input,
                  "tokenizer.ggml.merges[{}] is '{}': two tokens with a space between are needed", i, merge);
    }
    joined.resize(merge.size());
    const ptrdiff_t left_size = bytes_of_characters(merge.substr(0, space), joined.data());
    const ptrdiff_t right_size =
        left_size < 0 ? -1 : bytes_of_characters(merge.substr(space + 1), joined.data() + left_size);
    Token left = -1, right = -1, result = -1;
    if (right_size >= 0) {
      const std::string_view both(joined.data(), static_cast<size_t>(left_size + right_size));
      left = data.table.find(both.substr(0, static_cast<size_t>(left_size)), data.keys);
      right = data.table.find(both.substr(static_cast<size_t>(left_size)), data.keys);
      ++guess;
      const bool guessed = guess > 0 && static_cast<size_t>(guess) < data.keys.size() &&
                           data.keys[static_cast<size_t>(guess)] == both && data.spellable(guess);
      result = guessed ? guess : data.table.find(both, data.keys);
      guess = result;
    } else {
      // Characters outside of the byte alphabet never come up in text; the tokens must exist all the same.
      left = find_token(data, merge.substr(0, space));
      right = find_token(data, merge.substr(space + 1));
      result = find_token(data, std::string(merge.substr(0, space)) + std::string(merge.substr(space + 1)));
    }
    if (left < 0 || right < 0 || result < 0) {
      return fail(ErrorKind::invalid_input, "tokenizer.ggml.merges[{}] is '{}': its {} is not in the vocabulary", i,
                  merge,
                  left < 0    ? "left part"
                  : right < 0 ? "right part"
                              : "result");
    }
    if (right_size < 0 || !data.spellable(left) || !data.spellable(right) || !data.spellable(result)) continue;
    data.merges.add(left, right, {static_cast<uint32_t>(i), result});
  }
  return {};
}

void fill_specials(TokenizerData& data) {
  std::vector<SpecialTokens::Entry> entries;
  for (size_t i = 0; i < data.texts.size(); ++i) {
    const TokenKind kind = data.kinds[i];
    const bool always = kind == TokenKind::user_defined;
    if (!always && kind != TokenKind::control && kind != TokenKind::unknown) continue;
    if (data.texts[i].empty()) continue;
    if (data.texts[i].size() > longest_special) {
      log(LogLevel::warning, "special token {} is {} bytes long; it is not looked for in text", i,
          data.texts[i].size());
      continue;
    }
    entries.push_back({data.texts[i], static_cast<Token>(i), always});
  }
  data.specials.create(std::move(entries));
}

// A special token of the file; if it is missing or out of range, `standard` if that looks like a special token.
Token special_id(const TokenizerData& data, const std::optional<int64_t>& id, std::string_view key, int64_t standard) {
  const auto count = static_cast<int64_t>(data.texts.size());
  if (id.has_value()) {
    if (*id >= 0 && *id < count) return static_cast<Token>(*id);
    log(LogLevel::warning, "tokenizer.ggml.{} is {}, but the vocabulary has {} tokens; ignored", key, *id, count);
  }
  if (standard < 0 || standard >= count) return -1;
  const auto token = static_cast<Token>(standard);
  const bool special = data.kind(token) == TokenKind::control || data.kind(token) == TokenKind::unknown ||
                       data.texts[static_cast<size_t>(standard)].starts_with('<');
  return special ? token : -1;
}

Status fill_byte_level(const VocabularySource& source, TokenizerData& data) {
  const std::string_view name = source.pre_tokenizer.empty() ? "default" : source.pre_tokenizer;
  const PreTokenizer* pre = find_pre_tokenizer(name);
  if (pre == nullptr) {
    return fail(ErrorKind::unsupported, "tokenizer.ggml.pre: the pre-tokenizer '{}' is not known to this version",
                name);
  }
  if (name == "default") {
    log(LogLevel::warning,
        "the file names no pre-tokenizer (tokenizer.ggml.pre is {}): text may be cut into other tokens "
        "than in training, and answers may be worse",
        source.pre_tokenizer.empty() ? "missing" : "'default'");
  }
  data.rule = pre->rule;
  data.whole_words = pre->whole_words;
  data.adds_bos = source.add_bos.value_or(pre->adds_bos);
  data.bos = special_id(data, source.bos, "bos_token_id", pre->has_bos ? 11 : -1);
  if (!pre->has_bos) data.bos = -1;
  data.eos = special_id(data, source.eos, "eos_token_id", 11);
  data.unknown = special_id(data, source.unknown, "unknown_token_id", -1);
  fill_table(data, decode_texts(data));
  for (size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    data.byte_tokens[byte] = data.find_spellable({&c, 1});
  }
  return fill_merges(source, data);
}

Status fill_sentencepiece(const VocabularySource& source, TokenizerData& data) {
  data.space_prefix = source.add_space_prefix.value_or(true);
  data.adds_bos = source.add_bos.value_or(true);
  data.bos = special_id(data, source.bos, "bos_token_id", 1);
  data.eos = special_id(data, source.eos, "eos_token_id", 2);
  data.unknown = special_id(data, source.unknown, "unknown_token_id", 0);
  data.keys = data.texts;
  data.byte_tokens.fill(-1);
  for (size_t i = 0; i < data.texts.size(); ++i) {
    const int byte = byte_of_name(data.texts[i]);
    if (byte < 0) {
      if (data.kinds[i] == TokenKind::byte) data.kinds[i] = TokenKind::normal;
      continue;
    }
    if (source.kinds.empty()) data.kinds[i] = TokenKind::byte;
    data.byte_tokens[static_cast<size_t>(byte)] = static_cast<Token>(i);
  }
  fill_table(data, std::vector<bool>(data.keys.size(), true));
  for (size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (data.byte_tokens[byte] < 0) data.byte_tokens[byte] = data.find_spellable({&c, 1});
  }
  data.priorities.assign(data.texts.size(), priority_of(0.0f));
  for (size_t i = 0; i < source.scores.size(); ++i) {
    if (std::isnan(source.scores[i])) {
      return fail(ErrorKind::invalid_input, "tokenizer.ggml.scores[{}] is not a number", i);
    }
    data.priorities[i] = priority_of(source.scores[i]);
  }
  for (const std::string_view key : data.keys) {
    for (size_t at = key.find(space_mark, 1); at < key.size(); at = key.find(space_mark, at + 1)) {
      data.joins_space[static_cast<uint8_t>(key[at - 1])] = true;
    }
  }
  return {};
}

}  // namespace

uint64_t table_seed() {
  static const uint64_t seed = [] {
    std::random_device random;
    return static_cast<uint64_t>(random()) << 32 | random();
  }();
  return seed;
}

ptrdiff_t bytes_of_characters(std::string_view text, char* out) {
  char* const begin = out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto first = static_cast<uint8_t>(text[i]);
    uint32_t point = first;
    if (first >= 0x80) {
      const auto second = i + 1 < text.size() ? static_cast<uint8_t>(text[i + 1]) : uint8_t{0};
      if (first < 0xC2 || first > 0xC5 || (second & 0xC0) != 0x80) return -1;
      point = (first & 0x1Fu) << 6 | (second & 0x3Fu);
      ++i;
    }
    if (point >= byte_alphabet.size() || byte_alphabet[point] < 0) return -1;
    *out++ = static_cast<char>(byte_alphabet[point]);
  }
  return out - begin;
}

Token find_token(const TokenizerData& data, std::string_view text) {
  if (const Token token = data.specials.find(text); token >= 0) return token;
  Token token = -1;
  if (data.byte_level) {
    for (const Token t : data.off_alphabet) {
      if (data.texts[static_cast<size_t>(t)] == text) return t;
    }
    std::string bytes(text.size(), '\0');
    const ptrdiff_t size = bytes_of_characters(text, bytes.data());
    if (size > 0) token = data.table.find({bytes.data(), static_cast<size_t>(size)}, data.keys);
  } else if (!text.empty()) {
    token = data.table.find(text, data.keys);
  }
  return token;
}

Status fill_tokenizer_data(const VocabularySource& source, TokenizerData& data) {
  if (source.model != "gpt2" && source.model != "llama") {
    return fail(ErrorKind::unsupported, "tokenizer.ggml.model is '{}': 'gpt2' and 'llama' are supported", source.model);
  }
  data.byte_level = source.model == "gpt2";
  GALE_TRY(read_arrays(source, data));
  data.adds_eos = source.add_eos.value_or(false);
  GALE_TRY(data.byte_level ? fill_byte_level(source, data) : fill_sentencepiece(source, data));
  find_end_tokens(source, data);
  fill_specials(data);
  data.adds_bos = data.adds_bos && data.bos >= 0;
  data.adds_eos = data.adds_eos && data.eos >= 0;
  data.whole = std::make_unique<std::atomic<Whole>[]>(data.texts.size());
  if (data.byte_level) {
    std::vector<Token> replacement;
    if (encode_ordinary(data, "\xEF\xBF\xBD", false, replacement) == 0) data.replacement = std::move(replacement);
  }
  return {};
}

}  // namespace gale::text
