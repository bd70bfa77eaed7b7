// Words by regular expressions, for pre-tokenizers that no scanner in words.h is written for.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/vocabulary.h"

struct pcre2_real_code_8;

namespace gale::text {

// Steps that cut the words of the step before further. Immutable after creation.
class RegexWords {
 public:
  // Errors: an expression that is broken, or uses what the engines of tokenizers and PCRE2 understand differently.
  Status create(std::span<const WordPattern> patterns);
  // Appends the words of `text` (valid UTF-8, surrogates too) in their order. An expression that needs too many steps
  // somewhere makes one word of the rest there.
  void cut(std::string_view text, std::vector<std::string_view>& words) const;

 private:
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  struct Step {
    std::unique_ptr<pcre2_real_code_8, FreeCode> code;
    WordPattern::Matches matches;
    bool inverted;
  };
  static void cut_once(const Step& step, std::string_view text, std::vector<std::string_view>& words);

  std::vector<Step> steps_;
};

}  // namespace gale::text
