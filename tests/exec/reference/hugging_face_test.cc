// Logits of Hugging Face directories through the reference executor, against the oracle's answers for those files.
#include <gtest/gtest.h>

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

INSTANTIATE_TEST_SUITE_P(Schemes, DirectoryAnswers, testing::ValuesIn(test::mapped_directories()),
                         [](const auto& info) { return test::test_name(info.param); });

}  // namespace
}  // namespace gale::exec
