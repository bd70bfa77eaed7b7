// Not a test by itself: renders the cases of a JSON file for tests/peers/jinja_differential.py.
#include <gtest/gtest.h>

#include <cstdlib>

#include "text/chat_template_cases.h"

namespace gale::text {
namespace {

TEST(ChatTemplateDriver, RendersTheCasesOfAFile) {
  const char* input = std::getenv("GALE_JINJA_CASES");
  const char* output = std::getenv("GALE_JINJA_RESULTS");
  if (input == nullptr || output == nullptr) GTEST_SKIP() << "only for tests/peers/jinja_differential.py";
  const auto cases = CaseJson::parse(read_text(input));
  nlohmann::json results = nlohmann::json::array();
  for (const auto& item : cases) {
    const CaseResult result = render_case(item.at("template").get<std::string>(), item);
    results.push_back({{"ok", result.ok}, {"text", result.text}, {"message", result.message}});
  }
  std::ofstream(output) << results.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace
}  // namespace gale::text
