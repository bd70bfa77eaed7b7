// Fuzz target: vocabularies and texts of any bytes; whatever is encoded without loss must come back.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "text/tokenizer.h"
#include "text/words.h"

namespace {

using namespace gale::text;

// Hands out parts of the input; gives zeros and empty strings at its end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto b = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return b;
  }
  std::string_view text(size_t size) {
    const std::string_view out = rest_.substr(0, size);
    rest_.remove_prefix(out.size());
    return out;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

// Layout: flags, pre-tokenizer, number of extra tokens, then per token: kind, score, length and bytes; then merges of
// token pairs; the rest is text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in(data, size);
  const uint8_t flags = in.byte();
  const bool byte_level = (flags & 1) != 0;
  constexpr const char* names[] = {"gpt-2",  "smollm",      "llama-bpe", "qwen2", "qwen35", "gpt-4o",
                                   "tekken", "deepseek-v3", "default",   "dbrx",  "?"};
  VocabularySource source;
  source.model = byte_level ? "gpt2" : (flags & 128) != 0 ? "gemma4" : (flags & 64) != 0 ? "t5" : "llama";
  source.pre_tokenizer = names[in.byte() % std::size(names)];
  std::vector<std::string> tokens;
  std::vector<int64_t> kinds;
  std::vector<float> scores;
  // The alphabet of bytes, or a part of it.
  const int bytes = (flags & 2) != 0 ? 256 : 128;
  int shifted = 256;
  for (int b = 0; b < bytes; ++b) {
    const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
    const int point = itself ? b : shifted++;
    std::string text;
    if (!byte_level) {
      constexpr char hex[] = "0123456789ABCDEF";
      text = std::string("<0x") + hex[b / 16] + hex[b % 16] + ">";
    } else if (point < 128) {
      text = static_cast<char>(point);
    } else {
      text = {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 63))};
    }
    tokens.push_back(text);
    kinds.push_back(byte_level ? 1 : 6);
    scores.push_back(0);
  }
  const size_t extra = in.byte() % 64;
  for (size_t i = 0; i < extra; ++i) {
    kinds.push_back(in.byte() % 8);
    scores.push_back(static_cast<float>(in.byte()) - 100);
    tokens.emplace_back(in.text(in.byte() % 16));
  }
  std::vector<std::string> merges;
  const size_t merge_count = in.byte() % 32;
  for (size_t i = 0; i < merge_count; ++i) {
    const std::string left = tokens[in.byte() % tokens.size()];
    const std::string right = tokens[in.byte() % tokens.size()];
    merges.push_back(left + " " + right);
    if ((flags & 4) != 0) continue;
    tokens.push_back(left + right);
    kinds.push_back(1);
    scores.push_back(-static_cast<float>(i));
  }
  const std::vector<std::string_view> token_views(tokens.begin(), tokens.end());
  const std::vector<std::string_view> merge_views(merges.begin(), merges.end());
  source.tokens = token_views;
  source.merges = merge_views;
  source.kinds = kinds;
  if (!byte_level) source.scores = scores;
  source.bos = in.byte();
  source.eos = in.byte() - 8;
  const bool normalizes = (flags & 64) != 0;  // the pre-tokenizer's own normal form changes text
  if (!normalizes) source.normalization = Normalization::none;
  if ((flags & 8) != 0) source.add_space_prefix = false;
  if ((flags & 16) != 0) source.add_bos = true;
  const auto tokenizer = Tokenizer::create(source);
  if (!tokenizer) return 0;

  const std::string_view text = in.rest();
  for (const bool special : {false, true}) {
    size_t lost = 0;
    const std::vector<Token> ids =
        tokenizer->encode(text, {.special = special, .add_bos_eos = (flags & 32) != 0}, &lost);
    StreamingDetokenizer stream(*tokenizer);
    StopStrings stops({"ab", "\n\n"});
    for (const Token id : ids) {
      require(id >= 0 && static_cast<size_t>(id) < tokenizer->size());
      stops.push(stream.push(id));
    }
    stops.push(stream.finish());
    stops.finish();
    tokenizer->decode(ids, true);
    // Byte-level and without special tokens nothing may be lost in silence.
    if (byte_level && extra == 0 && lost == 0 && (flags & 32) == 0 && !normalizes)
      require(tokenizer->decode(ids, true) == text);
  }
  return 0;
}
