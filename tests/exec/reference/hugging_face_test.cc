// Logits of Hugging Face directories through the reference executor, against the oracle's answers for those files.
#include <gtest/gtest.h>

#include <cstdlib>

#include "exec/oracle_model.h"
#include "exec/reference/reference_executor.h"

namespace gale::exec {
namespace {

using test::OracleOptions;

class DirectoryAnswers : public testing::TestWithParam<OracleOptions> {};

TEST_P(DirectoryAnswers, AreTheOracles) {
  if (const auto why = test::oracle_missing(); !why.empty()) GTEST_SKIP() << why;
  const test::OracleModel model = test::make_oracle_model(GetParam());
  const auto checkpoint = format::Checkpoint::open(model.directory);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto hparams = model::read_hparams(*checkpoint);
  ASSERT_TRUE(hparams.ok()) << hparams.error().message;
  const auto program = model::build_program(*checkpoint, *hparams);
  ASSERT_TRUE(program.ok()) << program.error().message;
  EXPECT_TRUE(model::unused_tensors(*checkpoint, *program).empty());
  const auto executor = ReferenceExecutor::create(*program);
  ASSERT_TRUE(executor.ok()) << executor.error().message;
  const auto sequence = (*executor)->open_sequence(static_cast<uint32_t>(model.tokens.size()));
  ASSERT_TRUE(sequence.ok());
  std::vector<Column> columns;
  for (const int32_t token : model.tokens)
    columns.push_back({*sequence, static_cast<uint32_t>(columns.size()), token, true});
  std::vector<float> logits(model.logits.size());
  ASSERT_TRUE((*executor)->run(columns, logits).ok());
  EXPECT_LT(test::nmse(model.logits, logits), 1e-10);
}

std::vector<OracleOptions> all_schemes() {
  std::vector<OracleOptions> out;
  for (const char* hf : {"f32", "f16", "bf16", "fp8", "fp8-block", "fp8-channel", "nvfp4", "nvfp4-pack", "mxfp4"}) {
    out.push_back({.arch = "llama", .variant = "llama3", .greedy = 0, .hf = hf});
    out.push_back({.arch = "llama", .variant = "tied", .greedy = 0, .hf = hf});
    out.push_back({.arch = "gemma3", .greedy = 0, .hf = hf});
  }
  // Wider than one block of 128 x 128, and with a ragged last one; the rest takes minutes to make.
  const bool everything = std::getenv("GALE_TEST_EVERYTHING") != nullptr;
  const size_t tiny = out.size();
  for (size_t i = 0; i < tiny; ++i) {
    OracleOptions small = out[i];
    small.size = "small";
    const bool quick =
        small.variant == "llama3" && (small.hf == "fp8" || small.hf == "fp8-block" || small.hf == "bf16");
    if (quick || everything) out.push_back(small);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Schemes, DirectoryAnswers, testing::ValuesIn(all_schemes()),
                         [](const auto& info) { return test::test_name(info.param); });

}  // namespace
}  // namespace gale::exec
