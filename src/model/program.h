// A forward pass as a flat, typed, printable list of coarse steps over named buffers; every executor runs the same
// list.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "format/checkpoint.h"
#include "model/hparams.h"

namespace gale::model {

// Index into Program::buffers.
using BufferId = uint32_t;

// Float32 values [columns x width]; lives for one pass.
struct Buffer {
  std::string name;
  uint32_t width = 0;
};

// A weight in the checkpoint; never null. Norm weights are vectors {width} of type F32 (or another float type).
using Weight = const format::Tensor*;

// x[column] = scale * row `token` of the embedding.
struct EmbedStep {
  Weight weight;  // {C, vocabulary}
  float scale = 1;
  BufferId output = 0;
};

// What happens to a matrix step's input first. All of it is per column and is recomputed by every worker that needs it.
struct Prologue {
  enum class Kind {
    none,      // input as it is
    norm,      // rms(input; weight)
    add_norm,  // sum = residual + rms(input; post_weight), written to `sum`; then rms(sum; weight)
  };
  Kind kind = Kind::none;
  BufferId input = 0;
  Weight weight = nullptr;
  // add_norm only:
  BufferId residual = 0;
  BufferId sum = 0;  // never the same buffer as residual, so that no worker sees a half-written one
  Weight post_weight = nullptr;
  float epsilon = 0;  // of both norms: rms(x; w) = w * x / sqrt(mean(x^2) + epsilon)
};

enum class Activation { silu, gelu_tanh };

// Rows of one weight and the buffer that gets the products.
struct RowGroup {
  Weight weight;  // {in, out}
  BufferId output = 0;
};

// output = epilogue(weight . prologue(input)) for one or more weights that share the input.
struct MatrixStep {
  enum class Epilogue {
    store,   // output = product
    add,     // output += product
    gated,   // two groups of equal size: output of group 0 = activation(product 0) * product 1
    logits,  // only for columns that want logits; output = softcap(product): the pass' logits, no buffer
  };
  Prologue prologue;
  std::vector<RowGroup> groups;
  Epilogue epilogue = Epilogue::store;
  Activation activation = Activation::silu;  // gated
  float softcap = 0;                         // logits: cap * tanh(x / cap); 0: none
};

struct Rope {
  enum class Pairs { neighbours, halves };  // (2i, 2i+1) as NORM, (i, i + n/2) as NEOX
  Pairs pairs = Pairs::neighbours;
  uint32_t dimensions = 0;  // n: elements of a head that rotate (even, <= head size)
  float base = 10000;
  float factor = 1;           // the angle is divided by it
  Weight divisors = nullptr;  // {n / 2} or null: divides the angle of each pair
};

// Norms and rotates q and k, appends k and v to the cache, then causal softmax attention over it.
struct AttentionStep {
  BufferId q = 0, k = 0, v = 0;  // widths heads * head_size, kv_heads * head_size, kv_heads * value_size
  BufferId output = 0;           // heads * value_size
  uint32_t cache = 0;            // index into Program::caches
  uint32_t heads = 0, kv_heads = 0, head_size = 0, value_size = 0;
  Weight q_norm = nullptr, k_norm = nullptr;  // per head, {head_size}; null: none
  float epsilon = 0;
  Rope rope;
  float scale = 1;      // multiplies q.k
  float softcap = 0;    // on the scores; 0: none
  uint32_t window = 0;  // a query sees itself and window - 1 earlier positions; 0: all
};

using Step = std::variant<EmbedStep, MatrixStep, AttentionStep>;

// Shape of the cached keys and values of one attention step.
struct Cache {
  uint32_t kv_heads = 0, head_size = 0, value_size = 0;
  uint32_t window = 0;  // 0: every position is kept
};

struct Program {
  std::string architecture;
  uint32_t blocks = 0;
  uint32_t vocabulary = 0;
  uint32_t context_length = 0;
  std::vector<Buffer> buffers;
  std::vector<Cache> caches;
  std::vector<Step> steps;
};

// Builds the program of a model. The checkpoint must outlive it. Errors name missing tensors and wrong shapes or types.
Result<Program> build_program(const format::Checkpoint& checkpoint, const Hparams& hparams);

// Checks what every executor relies on: buffer ids in range, widths that fit the weights, add_norm's rule, caches.
Status validate(const Program& program);

// Bytes of weights that one pass must read (each weight once; of an embedding only one row counts).
uint64_t weight_bytes(const Program& program);
// Bytes of cached keys and values that a pass of one column at position `depth` must read, when a key or value element
// takes `bytes_per_element`.
uint64_t cache_bytes(const Program& program, uint64_t depth, double bytes_per_element);
// Bytes of weights of one step.
uint64_t weight_bytes(const Step& step);

// Names of tensors that no step reads, in file order.
std::vector<std::string> unused_tensors(const format::Checkpoint& checkpoint, const Program& program);

// One step per line, for people and golden tests (DESIGN of the format: docs/architecture.md).
std::string print(const Program& program);
// Graphviz.
std::string to_dot(const Program& program);

}  // namespace gale::model
