// Published vocabularies that come as bare ranks, and what their files don't say.
#pragma once

#include <span>
#include <string_view>

#include "text/vocabulary_files.h"

namespace gale::text {

// Consecutive special tokens. "{}" in a name stands for the numbers first_number, first_number + 1 ...
struct SpecialRun {
  std::string_view name;
  int count = 1;
  int first_number = 0;
};

struct RankVocabulary {
  std::string_view name;  // for people
  size_t ranks;           // tokens in the file
  std::string_view last;  // the bytes of the last of them: tells vocabularies of one size apart
  WordRule words;
  Normalization normalization;
  std::span<const SpecialRun> specials;  // behind the ranks
  std::string_view bos, eos;             // empty: none
  bool add_bos;
};

// nullptr: not one of the known.
const RankVocabulary* find_rank_vocabulary(size_t ranks, std::string_view last_token);

// Appends the special tokens and sets what is known.
void apply_rank_vocabulary(const RankVocabulary& known, Vocabulary& vocabulary);

}  // namespace gale::text
