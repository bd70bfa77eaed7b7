// validate(): every promise that executors rely on is broken once, and must be noticed.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

#include "model/program.h"
#include "model/tiny_model.h"

namespace gale::model {
namespace {

using test::contains;
using test::TinyModel;

// A gemma program has all kinds of steps: 0 embed, 1 norm + q/k/v, 2 attention, 3 output, 4 add_norm + gated, 5 down,
// 6 add_norm + q/k/v, ..., 11 logits. A llama program has `add` epilogues: 3 and 5.
class Validate : public testing::Test {
 protected:
  struct Built {
    format::Checkpoint checkpoint;
    Program program;
  };

  static std::unique_ptr<Built> build(const char* architecture) {
    auto out = std::make_unique<Built>(Built{TinyModel(architecture).open(), {}});
    const auto hparams = read_hparams(out->checkpoint);
    if (!hparams.ok()) throw std::runtime_error(hparams.error().message);
    auto program = build_program(out->checkpoint, *hparams);
    if (!program.ok()) throw std::runtime_error(program.error().message);
    out->program = std::move(program).value();
    return out;
  }

  void breaks(const char* part, const std::function<void(Program&)>& change,
              const char* architecture = "gemma3") const {
    Program program = (std::string(architecture) == "llama" ? llama_ : gemma_)->program;
    ASSERT_TRUE(validate(program).ok());
    change(program);
    const Status status = validate(program);
    EXPECT_TRUE(contains(status.ok() ? "valid" : status.error().message, part));
  }

  static MatrixStep& matrix(Program& program, size_t step) { return std::get<MatrixStep>(program.steps[step]); }
  static AttentionStep& attention(Program& program) { return std::get<AttentionStep>(program.steps[2]); }
  static EmbedStep& embed(Program& program) { return std::get<EmbedStep>(program.steps[0]); }
  static BufferId id(const Program& program, const std::string& name) {
    for (BufferId i = 0; i < program.buffers.size(); ++i)
      if (program.buffers[i].name == name) return i;
    throw std::runtime_error("no buffer " + name);
  }
  Weight weight(const char* name) const { return gemma_->checkpoint.find(name); }

  std::unique_ptr<Built> gemma_ = build("gemma3"), llama_ = build("llama");
  const float nan_ = std::numeric_limits<float>::quiet_NaN();
};

TEST_F(Validate, Embedding) {
  breaks("has no weight", [](Program& p) { embed(p).weight = nullptr; });
  breaks("scale is 0", [](Program& p) { embed(p).scale = 0; });
  breaks("scale is nan", [this](Program& p) { embed(p).scale = nan_; });
  breaks("the vocabulary has 11", [](Program& p) { p.vocabulary = 11; });
  breaks("writes buffer 99", [](Program& p) { embed(p).output = 99; });
  breaks("writes 8 values to buffer 'g'", [](Program& p) { embed(p).output = id(p, "g"); });
  breaks("before any step has written it", [](Program& p) { embed(p).output = id(p, "y"); });
  breaks("before any step has written it", [](Program& p) { p.steps.erase(p.steps.begin()); });
}

TEST_F(Validate, BuffersAndSteps) {
  breaks("has no width", [](Program& p) { p.buffers[1].width = 0; });
  breaks("0 steps give logits", [](Program& p) { p.steps.pop_back(); });
  breaks("2 steps give logits", [](Program& p) { p.steps.push_back(p.steps.back()); });
  breaks("0 steps give logits", [](Program& p) { p = {}; });
}

TEST_F(Validate, Prologue) {
  breaks("reads buffer 99", [](Program& p) { matrix(p, 1).prologue.input = 99; });
  breaks("has no norm weight", [](Program& p) { matrix(p, 1).prologue.weight = nullptr; });
  breaks("expected 8", [this](Program& p) { matrix(p, 1).prologue.weight = weight("blk.0.attn_q_norm.weight"); });
  breaks("expected 8", [this](Program& p) { matrix(p, 1).prologue.weight = weight("blk.0.attn_q.weight"); });
  breaks("epsilon is 0", [](Program& p) { matrix(p, 1).prologue.epsilon = 0; });
  breaks("epsilon is nan", [this](Program& p) { matrix(p, 4).prologue.epsilon = nan_; });
  breaks("has no norm weight", [](Program& p) { matrix(p, 4).prologue.post_weight = nullptr; });
  breaks("expected 8", [this](Program& p) { matrix(p, 4).prologue.post_weight = weight("blk.0.attn_k_norm.weight"); });
  breaks("other workers", [](Program& p) { matrix(p, 4).prologue.sum = matrix(p, 4).prologue.residual; });
  breaks("other workers", [](Program& p) { matrix(p, 4).prologue.sum = matrix(p, 4).prologue.input; });
  breaks("of width 12; expected 8", [](Program& p) { matrix(p, 6).prologue.residual = id(p, "g"); });
  breaks("writes 8 values to buffer 'g'", [](Program& p) { matrix(p, 6).prologue.sum = id(p, "g"); });
}

TEST_F(Validate, Matrix) {
  breaks("has no weight", [](Program& p) { matrix(p, 1).groups.clear(); });
  breaks("has no weight", [](Program& p) { matrix(p, 1).groups[1].weight = nullptr; });
  breaks("rows of 12; its input has 8",
         [this](Program& p) { matrix(p, 1).groups[0].weight = weight("blk.0.ffn_down.weight"); });
  breaks("writes 10 values to buffer 'q'",
         [this](Program& p) { matrix(p, 1).groups[0].weight = weight("token_embd.weight"); });
  breaks("two weights write the same buffer",
         [](Program& p) { matrix(p, 1).groups[1].output = matrix(p, 1).groups[2].output; });
  breaks("writes a buffer that other workers still read",
         [](Program& p) { matrix(p, 1).groups[0].output = id(p, "x"); });
  breaks("writes a buffer that other workers still read",
         [](Program& p) { matrix(p, 6).groups[0].output = id(p, "y"); });
  breaks("writes a buffer that other workers still read",
         [](Program& p) { matrix(p, 6).groups[0].output = id(p, "x"); });
  breaks("writes buffer 77", [](Program& p) { matrix(p, 1).groups[0].output = 77; });
  breaks("before any step has written it", [](Program& p) {
    matrix(p, 3).epilogue = MatrixStep::Epilogue::add;  // nothing is in o yet
  });
  breaks(
      "writes a buffer that other workers still read", [](Program& p) { matrix(p, 3).prologue.input = id(p, "x"); },
      "llama");
  breaks("two weights with equally many rows", [](Program& p) { matrix(p, 4).groups.pop_back(); });
  breaks("two weights with equally many rows",
         [this](Program& p) { matrix(p, 4).groups[1].weight = weight("blk.0.attn_q.weight"); });
}

TEST_F(Validate, Logits) {
  breaks("logits come from one weight", [](Program& p) { matrix(p, 11).groups.push_back(matrix(p, 11).groups[0]); });
  breaks("the vocabulary has 10",
         [this](Program& p) { matrix(p, 11).groups[0].weight = weight("blk.0.attn_q.weight"); });
  breaks("softcap is -1", [](Program& p) { matrix(p, 11).softcap = -1; });
  breaks("softcap is nan", [this](Program& p) { matrix(p, 11).softcap = nan_; });
}

TEST_F(Validate, Attention) {
  breaks("cannot share", [](Program& p) { attention(p).heads = 0; });
  breaks("cannot share", [](Program& p) { attention(p).kv_heads = 0; });
  breaks("cannot share", [](Program& p) { attention(p).kv_heads = 3; });
  breaks("buffer 'q' of width 8; expected 16", [](Program& p) { attention(p).heads = 4; });
  breaks("buffer 'k' of width 4; expected 8", [](Program& p) { attention(p).kv_heads = 2; });
  breaks("buffer 'v' of width 4; expected 3", [](Program& p) { attention(p).value_size = 3; });
  breaks("other workers", [](Program& p) { attention(p).output = attention(p).q; });
  breaks("other workers", [](Program& p) { attention(p).output = attention(p).v; });
  breaks("writes 8 values to buffer 'g'", [](Program& p) { attention(p).output = id(p, "g"); });
  breaks("expected 4", [this](Program& p) { attention(p).q_norm = weight("output_norm.weight"); });
  breaks("expected 4", [this](Program& p) { attention(p).k_norm = weight("output_norm.weight"); });
  breaks("epsilon is 0", [](Program& p) { attention(p).epsilon = 0; });
  breaks("scale is 0", [](Program& p) { attention(p).scale = 0; });
  breaks("softcap is -2", [](Program& p) { attention(p).softcap = -2; });
  breaks("3 of 4 elements rotate", [](Program& p) { attention(p).rope.dimensions = 3; });
  breaks("6 of 4 elements rotate", [](Program& p) { attention(p).rope.dimensions = 6; });
  breaks("rope base is 0", [](Program& p) { attention(p).rope.base = 0; });
  breaks("rope factor is nan", [this](Program& p) { attention(p).rope.factor = nan_; });
  breaks("expected 2", [this](Program& p) { attention(p).rope.divisors = weight("output_norm.weight"); });
  breaks("uses cache 9 of 2", [](Program& p) { attention(p).cache = 9; });
  breaks("which an earlier step uses", [](Program& p) { std::get<AttentionStep>(p.steps[7]).cache = 0; });
  breaks("another shape or window", [](Program& p) { attention(p).window = 15; });
  breaks("another shape or window", [](Program& p) { p.caches[0].value_size = 8; });
  breaks("no step uses cache 2", [](Program& p) { p.caches.push_back(p.caches[0]); });
}

}  // namespace
}  // namespace gale::model
