// Pre-tokenizers as steps of regular expressions, run by PCRE2.
#include "text/regex_words.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

#include "base/log.h"

namespace gale::text {
namespace {

// Far more than published expressions need, and an end to hostile ones: steps of one search, and memory in KB.
constexpr uint32_t match_limit = 10'000'000;
constexpr uint32_t heap_limit_kb = 256 * 1024;
constexpr size_t longest_expression = 16384;

// Tokenizers are run by Oniguruma or Rust's regex. Where PCRE2 gives the same text another meaning, silence would be
// wrong: sets inside sets, intersections, and escapes beyond the common ones are refused.
Status check_dialect(std::string_view expression) {
  constexpr std::string_view common_escapes = "sSdDwWpPrntfvx";
  bool in_set = false;
  const auto refuse = [&](std::string_view what, size_t at) {
    return fail(ErrorKind::unsupported, "the expression '{}' of the pre-tokenizer has {} at byte {}: not supported",
                expression, what, at);
  };
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\') {
      if (++i == expression.size()) return refuse("nothing behind a backslash", i);
      const char escaped = expression[i];
      const bool alphanumeric = (escaped >= '0' && escaped <= '9') || (escaped >= 'A' && escaped <= 'Z') ||
                                (escaped >= 'a' && escaped <= 'z');
      if (alphanumeric && common_escapes.find(escaped) == std::string_view::npos) return refuse("a rare escape", i);
    } else if (in_set) {
      if (c == '[') return refuse("a set inside a set", i);
      if (expression.substr(i).starts_with("&&")) return refuse("an intersection of sets", i);
      in_set = c != ']';
    } else if (c == '[') {
      in_set = true;
      if (i + 1 < expression.size() && expression[i + 1] == '^') ++i;
      if (i + 1 < expression.size() && expression[i + 1] == ']') ++i;
    }
  }
  return {};
}

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

struct Stretch {
  std::string_view text;
  bool match;
};

}  // namespace

void RegexWords::FreeCode::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Status RegexWords::create(std::span<const WordPattern> patterns) {
  steps_.clear();
  for (const WordPattern& pattern : patterns) {
    if (pattern.expression.size() > longest_expression) {
      return fail(ErrorKind::limit, "an expression of the pre-tokenizer is {} bytes long; at most {} are possible",
                  pattern.expression.size(), longest_expression);
    }
    if (auto status = check_dialect(pattern.expression); !status) return std::move(status).error();
    int error = 0;
    PCRE2_SIZE place = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.expression.data()), pattern.expression.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &place, nullptr);
    if (code == nullptr) {
      PCRE2_UCHAR message[128] = {};
      pcre2_get_error_message(error, message, sizeof(message));
      return fail(ErrorKind::invalid_input, "the expression '{}' of the pre-tokenizer is wrong at byte {}: {}",
                  pattern.expression, place, reinterpret_cast<const char*>(message));
    }
    steps_.push_back({std::unique_ptr<pcre2_real_code_8, FreeCode>(code), pattern.matches, pattern.inverted});
  }
  return {};
}

void RegexWords::cut_once(const Step& step, std::string_view text, std::vector<std::string_view>& words) {
  const std::unique_ptr<pcre2_match_data, FreeMatch> data(pcre2_match_data_create(1, nullptr));
  const std::unique_ptr<pcre2_match_context, FreeMatch> context(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), match_limit);
  pcre2_set_heap_limit(context.get(), heap_limit_kb);
  std::vector<Stretch> stretches;
  const auto add = [&](size_t begin, size_t end, bool match) {
    if (end > begin) stretches.push_back({text.substr(begin, end - begin), match != step.inverted});
  };
  size_t done = 0;
  for (size_t from = 0; from < text.size();) {
    // The text went through repair_utf8; surrogates are all that PCRE2 would refuse in it.
    const int found = pcre2_match(step.code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                  PCRE2_NO_UTF_CHECK, data.get(), context.get());
    if (found < 0) {
      if (found != PCRE2_ERROR_NOMATCH) {
        log(LogLevel::warning, "the pre-tokenizer gave up at byte {} of a text of {} (PCRE2 error {})", from,
            text.size(), found);
      }
      break;
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    const size_t begin = range[0];
    const size_t end = std::max(range[0], range[1]);
    if (end == begin) {  // an empty match cuts nothing
      from = end + 1;
      while (from < text.size() && (static_cast<uint8_t>(text[from]) & 0xC0) == 0x80) ++from;
      continue;
    }
    add(done, begin, false);
    add(begin, end, true);
    done = from = end;
  }
  add(done, text.size(), false);

  const auto join = [&](const std::string_view& left, const std::string_view& right) {
    return std::string_view(left.data(), left.size() + right.size());
  };
  using Matches = WordPattern::Matches;
  for (size_t i = 0; i < stretches.size(); ++i) {
    const Stretch& s = stretches[i];
    const bool first = i == 0;
    const bool joins =
        !first && ((step.matches == Matches::contiguous && s.match == stretches[i - 1].match) ||
                   (step.matches == Matches::merged_with_previous && s.match && !stretches[i - 1].match) ||
                   (step.matches == Matches::merged_with_next && !s.match && stretches[i - 1].match));
    if (s.match && step.matches == Matches::removed) continue;
    if (joins) {
      words.back() = join(words.back(), s.text);
    } else {
      words.push_back(s.text);
    }
  }
}

void RegexWords::cut(std::string_view text, std::vector<std::string_view>& words) const {
  std::vector<std::string_view> current{text};
  std::vector<std::string_view> next;
  for (const Step& step : steps_) {
    next.clear();
    for (const std::string_view word : current) cut_once(step, word, next);
    std::swap(current, next);
  }
  words.insert(words.end(), current.begin(), current.end());
}

}  // namespace gale::text
