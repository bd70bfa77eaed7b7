// Filling the tables of a tokenizer from the facts of a model file.
#include "text/tokenizer_data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <unordered_map>

#include "base/log.h"
#include "text/byte_names.h"

namespace gale::text {
namespace {

constexpr std::string_view space_mark = "\xE2\x96\x81";  // U+2581
// A longer one is never looked for in text: it could only be an attempt to fill the memory.
constexpr size_t longest_special = 1024;

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
  std::vector<size_t> off_alphabet;
  char* out = data.bytes.data();
  data.keys.reserve(data.texts.size());
  for (size_t i = 0; i < data.texts.size(); ++i) {
    const ptrdiff_t size = bytes_of_characters(data.texts[i], out);
    if (size < 0) {
      on_alphabet[i] = false;
      off_alphabet.push_back(i);
      data.keys.push_back(data.texts[i]);
    } else {
      data.keys.emplace_back(out, static_cast<size_t>(size));
      out += size;
    }
  }
  data.off_alphabet.reserve(off_alphabet.size());
  for (const size_t i : off_alphabet) {
    Token& slot = data.off_alphabet.slot(data.texts[i], data.texts);
    if (slot < 0) slot = static_cast<Token>(i);
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

// Looks for the tokens of one merge after the other.
class MergeReader {
 public:
  explicit MergeReader(const TokenizerData& data) : data_(data) {}

  struct Parts {
    Token left = -1, right = -1, result = -1;
    bool usable = true;  // false: its characters never come up in text
  };

  Parts read(std::string_view left, std::string_view right) {
    joined_.resize(left.size() + right.size());
    const bool bytes = data_.alphabet == Alphabet::bytes;
    const ptrdiff_t left_size = bytes ? bytes_of_characters(left, joined_.data()) : copy(left, joined_.data());
    const ptrdiff_t right_size = left_size < 0 ? -1
                                 : bytes       ? bytes_of_characters(right, joined_.data() + left_size)
                                               : copy(right, joined_.data() + left_size);
    Parts parts;
    if (right_size < 0) {
      parts.left = find_token(data_, left);
      parts.right = find_token(data_, right);
      parts.result = find_token(data_, std::string(left) + std::string(right));
      parts.usable = false;
      return parts;
    }
    const std::string_view both(joined_.data(), static_cast<size_t>(left_size + right_size));
    parts.left = data_.table.find(both.substr(0, static_cast<size_t>(left_size)), data_.keys);
    parts.right = data_.table.find(both.substr(static_cast<size_t>(left_size)), data_.keys);
    ++guess_;
    const bool guessed = guess_ > 0 && static_cast<size_t>(guess_) < data_.keys.size() &&
                         data_.keys[static_cast<size_t>(guess_)] == both && data_.spellable(guess_);
    parts.result = guessed ? guess_ : data_.table.find(both, data_.keys);
    guess_ = parts.result;
    return parts;
  }

 private:
  static ptrdiff_t copy(std::string_view text, char* out) {
    std::copy(text.begin(), text.end(), out);
    return static_cast<ptrdiff_t>(text.size());
  }
  const TokenizerData& data_;
  std::string joined_;
  Token guess_ = -1;  // results mostly follow each other in the vocabulary
};

Status fill_merges(const VocabularySource& source, TokenizerData& data) {
  data.merges.reserve(source.merges.size());
  MergeReader reader(data);
  for (size_t i = 0; i < source.merges.size(); ++i) {
    const std::string_view merge = source.merges[i];
    const size_t space = merge.find(' ', 1);
    if (merge.empty() || space == std::string_view::npos) {
      return fail(ErrorKind::invalid_input,
                  "tokenizer.ggml.merges[{}] is '{}': two tokens with a space between are needed", i, merge);
    }
    const MergeReader::Parts parts = reader.read(merge.substr(0, space), merge.substr(space + 1));
    if (parts.left < 0 || parts.right < 0 || parts.result < 0) {
      return fail(ErrorKind::invalid_input, "tokenizer.ggml.merges[{}] is '{}': its {} is not in the vocabulary", i,
                  merge,
                  parts.left < 0    ? "left part"
                  : parts.right < 0 ? "right part"
                                    : "result");
    }
    if (!parts.usable || !data.spellable(parts.left) || !data.spellable(parts.right) || !data.spellable(parts.result)) {
      continue;
    }
    data.merges.add(parts.left, parts.right, {static_cast<uint32_t>(i), parts.result});
  }
  return {};
}

// The lowest id first.
void fill_rank_priorities(TokenizerData& data) {
  data.priorities.resize(data.texts.size());
  for (size_t i = 0; i < data.priorities.size(); ++i) data.priorities[i] = static_cast<uint32_t>(i);
}

Status check_scores(const VocabularySource& source) {
  for (size_t i = 0; i < source.scores.size(); ++i) {
    if (std::isnan(source.scores[i])) {
      return fail(ErrorKind::invalid_input, "tokenizer.ggml.scores[{}] is not a number", i);
    }
  }
  return {};
}

void fill_score_priorities(const VocabularySource& source, TokenizerData& data) {
  data.priorities.assign(data.texts.size(), priority_of(0.0f));
  for (size_t i = 0; i < source.scores.size(); ++i) data.priorities[i] = priority_of(source.scores[i]);
}

void fill_unigram(const VocabularySource& source, TokenizerData& data) {
  std::vector<Unigram::Piece> pieces;
  for (size_t i = 0; i < data.texts.size(); ++i) {
    if (data.kinds[i] != TokenKind::normal || data.texts[i].empty()) continue;
    pieces.push_back({data.texts[i], static_cast<Token>(i), source.scores.empty() ? 0.0f : source.scores[i]});
  }
  data.unigram.create(std::move(pieces));
}

void fill_specials(const VocabularySource& source, TokenizerData& data) {
  std::unordered_map<Token, AddedTokenRule> rules;
  for (const AddedTokenRule& rule : source.added) rules.emplace(rule.token, rule);
  std::vector<SpecialTokens::Entry> entries;
  std::vector<SpecialTokens::Entry> normalized;
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
    SpecialTokens::Entry entry{data.texts[i], always, {}};
    if (const auto rule = rules.find(static_cast<Token>(i)); rule != rules.end()) entry.rule = rule->second;
    entry.rule.token = static_cast<Token>(i);
    const bool later = always && entry.rule.normalized && data.normalizer.changes_text();
    (later ? normalized : entries).push_back(entry);
  }
  data.specials.create(std::move(entries));
  if (!normalized.empty()) data.normalized_specials.create(std::move(normalized));
}

// A special token of the file; if it is missing or out of range, `standard` if that looks like a special token.
Token special_id(const TokenizerData& data, const std::optional<int64_t>& id, std::string_view key, int64_t standard) {
  const auto count = static_cast<int64_t>(data.texts.size());
  if (id.has_value()) {
    if (*id == -1) return -1;
    if (*id >= 0 && *id < count) return static_cast<Token>(*id);
    log(LogLevel::warning, "tokenizer.ggml.{} is {}, but the vocabulary has {} tokens; ignored", key, *id, count);
  }
  if (standard < 0 || standard >= count) return -1;
  const auto token = static_cast<Token>(standard);
  const bool special = data.kind(token) == TokenKind::control || data.kind(token) == TokenKind::unknown ||
                       data.texts[static_cast<size_t>(standard)].starts_with('<');
  return special ? token : -1;
}

// The rule for words and what hangs on it, from the name of the pre-tokenizer or from the source's own fields.
Status choose_words(const VocabularySource& source, TokenizerData& data, PreTokenizer& pre) {
  if (source.words) {
    pre = {{}, *source.words};
  } else {
    const std::string_view name = source.pre_tokenizer.empty() ? "default" : source.pre_tokenizer;
    const PreTokenizer* found = find_pre_tokenizer(name);
    if (found == nullptr) {
      return fail(ErrorKind::unsupported, "tokenizer.ggml.pre: the pre-tokenizer '{}' is not known to this version",
                  name);
    }
    if (name == "default") {
      log(LogLevel::warning,
          "the file names no pre-tokenizer (tokenizer.ggml.pre is {}): text may be cut into other tokens "
          "than in training, and answers may be worse",
          source.pre_tokenizer.empty() ? "missing" : "'default'");
    }
    pre = *found;
  }
  data.rule = pre.rule;
  data.whole_words = source.whole_words.value_or(pre.whole_words);
  if (data.rule == WordRule::patterns) {
    if (auto status = data.patterns.create(source.patterns); !status) return std::move(status).error();
  }
  return data.normalizer.create(source, source.normalization.value_or(pre.normalization));
}

Status fill_byte_level(const VocabularySource& source, TokenizerData& data) {
  PreTokenizer pre;
  if (auto status = choose_words(source, data, pre); !status) return std::move(status).error();
  data.adds_bos = source.add_bos.value_or(pre.adds_bos);
  data.bos = special_id(data, source.bos, "bos_token_id", pre.has_bos ? 11 : -1);
  if (!pre.has_bos) data.bos = -1;
  data.eos = special_id(data, source.eos, "eos_token_id", 11);
  data.unknown = special_id(data, source.unknown, "unknown_token_id", -1);
  fill_table(data, decode_texts(data));
  for (size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    data.byte_tokens[byte] = data.find_spellable({&c, 1});
  }
  if (!source.merges_by_rank) return fill_merges(source, data);
  data.joining = Joining::unions;
  fill_rank_priorities(data);
  return {};
}

// The tokens that stand for bytes, by their names.
void fill_byte_tokens(const VocabularySource& source, TokenizerData& data) {
  data.byte_tokens.fill(-1);
  for (size_t i = 0; i < data.texts.size(); ++i) {
    const int byte = byte_of_name(data.texts[i]);
    if (byte < 0) {
      if (data.kinds[i] == TokenKind::byte) data.kinds[i] = TokenKind::normal;
      continue;
    }
    if (source.kinds.empty()) data.kinds[i] = TokenKind::byte;
    if (data.kinds[i] == TokenKind::control || data.kinds[i] == TokenKind::unknown) continue;
    data.byte_tokens[static_cast<size_t>(byte)] = static_cast<Token>(i);
  }
}

// Which bytes stand side by side in some token.
void fill_joins(TokenizerData& data) {
  // Where a word that is a token is not merged, no other words may be made.
  data.joins_bytes.assign(65536, data.whole_words);
  data.joins_space.fill(data.whole_words);
  for (const std::string_view key : data.keys) {
    for (size_t i = 1; i < key.size(); ++i) {
      const auto before = static_cast<uint8_t>(key[i - 1]);
      data.joins_bytes[static_cast<size_t>(before) << 8 | static_cast<uint8_t>(key[i])] = true;
      if (key[i] == space_mark[0] && key.substr(i).starts_with(space_mark)) data.joins_space[before] = true;
    }
  }
}

Status fill_characters(const VocabularySource& source, TokenizerData& data) {
  const bool gemma4 = source.model == "gemma4";
  const bool unigram = source.model == "t5";
  data.rule = source.words.value_or(gemma4 ? WordRule::newlines : WordRule::whole);
  if (data.rule != WordRule::newlines && data.rule != WordRule::whole && data.rule != WordRule::spaces) {
    return fail(ErrorKind::unsupported,
                "the pre-tokenizer cuts words by a rule for byte-level vocabularies, but the vocabulary is of the kind "
                "'{}'",
                source.model);
  }
  data.whole_words = source.whole_words.value_or(false);
  if (auto status = data.normalizer.create(source, source.normalization.value_or(Normalization::none)); !status) {
    return std::move(status).error();
  }
  const bool prefix = source.add_space_prefix.value_or(!gemma4);
  data.space_prefix = source.space_prefix.value_or(prefix ? SpacePrefix::pieces : SpacePrefix::never);
  data.prefix_unless_space = source.prefix_unless_space;
  data.adds_bos = source.add_bos.value_or(!unigram);
  data.bos = special_id(data, source.bos, "bos_token_id", unigram ? -1 : gemma4 ? 2 : 1);
  data.eos = special_id(data, source.eos, "eos_token_id", unigram || gemma4 ? 1 : 2);
  data.unknown = special_id(data, source.unknown, "unknown_token_id", unigram ? 2 : gemma4 ? 3 : 0);
  data.keys = data.texts;
  fill_byte_tokens(source, data);
  fill_table(data, std::vector<bool>(data.keys.size(), true));
  const bool has_bytes = std::any_of(data.byte_tokens.begin(), data.byte_tokens.end(), [](Token t) { return t >= 0; });
  data.byte_fallback = source.byte_fallback && (has_bytes || !unigram);
  data.joins_unknown = source.joins_unknown;
  for (size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (data.byte_tokens[byte] < 0) data.byte_tokens[byte] = data.find_spellable({&c, 1});
  }
  fill_joins(data);
  if (auto status = check_scores(source); !status) return std::move(status).error();
  if (unigram) {
    data.joining = Joining::unigram;
    fill_unigram(source, data);
    return {};
  }
  if (gemma4) return fill_merges(source, data);
  data.joining = Joining::unions;
  fill_score_priorities(source, data);
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

Token find_token(const TokenizerData& data, std::string_view text) {
  if (const Token token = data.specials.find(text); token >= 0) return token;
  Token token = -1;
  if (data.alphabet == Alphabet::bytes) {
    if (const Token t = data.off_alphabet.find(text, data.texts); t >= 0) return t;
    std::string bytes(text.size(), '\0');
    const ptrdiff_t size = bytes_of_characters(text, bytes.data());
    if (size > 0) token = data.table.find({bytes.data(), static_cast<size_t>(size)}, data.keys);
  } else if (!text.empty()) {
    token = data.table.find(text, data.keys);
  }
  return token;
}

Status fill_tokenizer_data(const VocabularySource& source, TokenizerData& data) {
  const bool bytes = source.model == "gpt2";
  if (!bytes && source.model != "llama" && source.model != "gemma4" && source.model != "t5") {
    return fail(ErrorKind::unsupported,
                "tokenizer.ggml.model is '{}': 'gpt2', 'llama', 'gemma4' and 't5' are supported", source.model);
  }
  data.alphabet = bytes ? Alphabet::bytes : Alphabet::characters;
  if (auto status = read_arrays(source, data); !status) return std::move(status).error();
  data.adds_eos = source.add_eos.value_or(source.model == "t5");
  if (auto status = bytes ? fill_byte_level(source, data) : fill_characters(source, data); !status)
    return std::move(status).error();
  find_end_tokens(source, data);
  fill_specials(source, data);
  data.adds_bos = data.adds_bos && data.bos >= 0;
  data.adds_eos = data.adds_eos && data.eos >= 0;
  data.whole = std::make_unique<std::atomic<Whole>[]>(data.texts.size());
  if (bytes) {
    std::vector<Token> replacement;
    if (encode_ordinary(data, "\xEF\xBF\xBD", false, replacement) == 0) data.replacement = std::move(replacement);
  }
  return {};
}

}  // namespace gale::text
