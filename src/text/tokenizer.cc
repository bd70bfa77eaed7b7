// The public face of a tokenizer: special tokens cut out, ordinary text encoded, and tokens turned back into text.
#include "text/tokenizer.h"

#include <algorithm>

#include "text/tokenizer_data.h"

namespace gale::text {

struct Tokenizer::State {
  TokenizerData data;
};

Tokenizer::Tokenizer(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Result<Tokenizer> Tokenizer::create(const VocabularySource& source) {
  auto state = std::make_unique<State>();
  if (auto status = fill_tokenizer_data(source, state->data); !status) return std::move(status).error();
  return Tokenizer(std::move(state));
}

size_t Tokenizer::size() const {
  return state_->data.texts.size();
}

namespace {

// Encodes the ordinary stretches between the special tokens of one text.
class PartEncoder {
 public:
  PartEncoder(const TokenizerData& data, std::vector<Token>& tokens) : data_(data), tokens_(tokens) {}

  void special(Token token) {
    if (data_.space_prefix == SpacePrefix::segments && data_.kind(token) == TokenKind::user_defined) {
      // SentencePiece's space goes before the first user-defined token too, and none behind it.
      if (prefix_) ordinary_text({}, true);
      prefix_ = false;
    } else {
      prefix_ = data_.space_prefix != SpacePrefix::start;
    }
    tokens_.push_back(token);
  }

  void ordinary(std::string_view text) {
    std::string storage;
    const std::string_view normal = data_.normalizer.apply(text, storage);
    if (normal.empty()) return;
    if (data_.normalized_specials.empty()) return ordinary_text(normal, prefix_);
    for (const TextPart& part : data_.normalized_specials.cut(normal, true)) {
      if (part.token >= 0) {
        special(part.token);
      } else {
        ordinary_text(part.text, prefix_);
      }
    }
  }

  size_t lost() const { return lost_; }

 private:
  void ordinary_text(std::string_view text, bool prefix) {
    lost_ += encode_ordinary(data_, text, prefix && data_.space_prefix != SpacePrefix::never, tokens_);
    prefix_ = false;
  }

  const TokenizerData& data_;
  std::vector<Token>& tokens_;
  bool prefix_ = true;  // at the start and behind special tokens
  size_t lost_ = 0;
};

// Tokens of a text that has been cut.
std::vector<Token> encode_parts(const TokenizerData& data, const std::vector<TextPart>& parts, size_t text_size,
                                bool add_bos_eos, size_t* lost) {
  std::vector<Token> tokens;
  tokens.reserve(text_size / 3 + 2);
  const bool add_bos = add_bos_eos && data.adds_bos;
  const bool add_eos = add_bos_eos && data.adds_eos;
  if (add_bos && (parts.empty() || parts.front().token != data.bos)) tokens.push_back(data.bos);
  PartEncoder encoder(data, tokens);
  for (const TextPart& part : parts) {
    if (part.token >= 0) {
      encoder.special(part.token);
    } else {
      encoder.ordinary(part.text);
    }
  }
  if (add_eos && (parts.empty() || parts.back().token != data.eos)) tokens.push_back(data.eos);
  if (lost != nullptr) *lost = encoder.lost();
  return tokens;
}

}  // namespace

std::vector<Token> Tokenizer::encode(std::string_view text, EncodeOptions options, size_t* lost) const {
  const TokenizerData& data = state_->data;
  return encode_parts(data, data.specials.cut(text, options.special), text.size(), options.add_bos_eos, lost);
}

std::vector<Token> Tokenizer::encode(std::span<const PromptPart> parts, EncodeOptions options, size_t* lost) const {
  const TokenizerData& data = state_->data;
  std::string text;
  std::vector<PlainRange> plain;
  for (const PromptPart& part : parts) {
    if (!part.special && !part.text.empty()) plain.push_back({text.size(), text.size() + part.text.size()});
    text += part.text;
  }
  return encode_parts(data, data.specials.cut(text, options.special, plain), text.size(), options.add_bos_eos, lost);
}

std::string Tokenizer::piece(Token token, bool special) const {
  const TokenizerData& data = state_->data;
  if (token < 0 || static_cast<size_t>(token) >= data.texts.size()) return {};
  const auto at = static_cast<size_t>(token);
  const std::string_view text = data.texts[at];
  switch (data.kinds[at]) {
    case TokenKind::control:
    case TokenKind::unknown:
      return special || data.shown[at] ? std::string(text) : std::string();
    case TokenKind::user_defined:
      return std::string(text);
    default:
      break;
  }
  if (data.alphabet == Alphabet::bytes) return std::string(data.keys[at]);
  if (data.kinds[at] == TokenKind::byte) {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; };
    return std::string(1, static_cast<char>(digit(text[3]) * 16 + digit(text[4])));  // "<0xAB>"
  }
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const bool space = text.substr(i).starts_with("\xE2\x96\x81");  // U+2581
    out += space ? ' ' : text[i];
    i += space ? 3 : 1;
  }
  return out;
}

std::string Tokenizer::decode(std::span<const Token> tokens, bool special) const {
  std::string out;
  bool first = adds_space_prefix();
  for (const Token token : tokens) {
    std::string text = piece(token, special);
    if (first && kind(token) != TokenKind::control) {
      if (text.starts_with(' ') && kind(token) != TokenKind::user_defined) text.erase(0, 1);
      first = false;
    }
    out += text;
  }
  return out;
}

TokenKind Tokenizer::kind(Token token) const {
  const bool known = token >= 0 && static_cast<size_t>(token) < size();
  return known ? state_->data.kind(token) : TokenKind::unknown;
}

Token Tokenizer::bos() const {
  return state_->data.bos;
}
Token Tokenizer::eos() const {
  return state_->data.eos;
}
bool Tokenizer::adds_bos() const {
  return state_->data.adds_bos;
}
bool Tokenizer::adds_eos() const {
  return state_->data.adds_eos;
}
bool Tokenizer::adds_space_prefix() const {
  return state_->data.space_prefix != SpacePrefix::never;
}
const std::vector<Token>& Tokenizer::end_tokens() const {
  return state_->data.end_tokens;
}

bool Tokenizer::ends_turn(Token token) const {
  return std::binary_search(end_tokens().begin(), end_tokens().end(), token);
}

Token Tokenizer::find(std::string_view text) const {
  return find_token(state_->data, text);
}

}  // namespace gale::text
