// What the fuzz targets of vocabulary files share.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "text/tokenizer.h"
#include "text/vocabulary_files.h"

namespace gale::text {

inline void require(bool condition) {
  if (!condition) std::abort();
}

// The file, and the text behind its last zero byte.
inline std::pair<std::string_view, std::string_view> split_input(std::string_view all) {
  const size_t zero = all.rfind('\0');
  if (zero == std::string_view::npos) return {all, "Hello w\xC3\xB6rld 123"};
  return {all.substr(0, zero), all.substr(zero + 1)};
}

// Encodes and decodes with whatever vocabulary came out.
inline void try_vocabulary(const Result<Vocabulary>& vocabulary, std::string_view text) {
  if (!vocabulary) {
    require(!vocabulary.error().message.empty());
    return;
  }
  const auto tokenizer = Tokenizer::create(vocabulary->source());
  if (!tokenizer) {
    require(!tokenizer.error().message.empty());
    return;
  }
  for (const bool special : {false, true}) {
    const std::vector<Token> ids = tokenizer->encode(text, {.special = special, .add_bos_eos = true});
    for (const Token id : ids) {
      require(id >= 0 && static_cast<size_t>(id) < tokenizer->size());
      // Ordinary text never becomes a control token, but what it can't spell may.
      const bool named = id == tokenizer->bos() || id == tokenizer->eos() || id == vocabulary->facts.unknown;
      require(special || named || tokenizer->kind(id) != TokenKind::control);
    }
    tokenizer->decode(ids, true);
  }
}

}  // namespace gale::text
