// Steps of Gemma 3: norms before and after each half of a block, GELU, five sliding blocks to one full block.
#include <fmt/format.h>

#include <cmath>

#include "model/architectures.h"

namespace gale::model {

// x = sqrt(C) E[token]. Per block: y = x + rms(Wo attention(...); post_attention_norm); x = y + rms(Wd (gelu(Wg h) *
// (Wu h)); post_ffw_norm), h = rms(y; ffn_norm). The sums x and y are made by the prologue of the step that reads them
// next, so each half of a block leaves its product in o and names the post-norm that the next prologue must apply.
void build_gemma3(ProgramBuilder& builder, const Hparams& hparams) {
  const uint32_t width = hparams.embedding_length;
  const BufferId x = builder.buffer("x", width);
  const BufferId y = builder.buffer("y", width);
  const BufferId o = builder.buffer("o", width);
  // sum = residual + rms(o; post), then rms(sum; weight); without `post` only the norm of what is in `sum`.
  const auto sum_and_norm = [&](BufferId sum, BufferId residual, Weight post, Weight weight) {
    if (!post)
      return Prologue{.kind = Prologue::Kind::norm, .input = sum, .weight = weight, .epsilon = hparams.norm_epsilon};
    return Prologue{.kind = Prologue::Kind::add_norm,
                    .input = o,
                    .weight = weight,
                    .residual = residual,
                    .sum = sum,
                    .post_weight = post,
                    .epsilon = hparams.norm_epsilon};
  };

  builder.append(EmbedStep{.weight = builder.matrix("token_embd", width, hparams.vocabulary),
                           .scale = std::sqrt(static_cast<float>(width)),
                           .output = x});
  const Weight divisors = builder.optional_vector("rope_freqs", hparams.rope_dimensions / 2);
  Weight last_post = nullptr;  // post_ffw_norm of the block before

  for (uint32_t block = 0; block < hparams.block_count; ++block) {
    const auto at = [&](const char* name) { return fmt::format("blk.{}.{}", block, name); };
    builder.refuse(at("attn_qkv"), "q, k and v must be separate tensors; convert the model again");
    const uint32_t heads = hparams.head_count[block], kv_heads = hparams.head_count_kv[block];
    const uint32_t feed_forward = hparams.feed_forward_length[block];
    const bool slides = hparams.slides[block];
    const uint32_t window = slides ? hparams.sliding_window : 0;
    const BufferId q = builder.buffer("q", heads * hparams.key_length);
    const BufferId k = builder.buffer("k", kv_heads * hparams.key_length);
    const BufferId v = builder.buffer("v", kv_heads * hparams.value_length);
    const BufferId a = builder.buffer("a", heads * hparams.value_length);
    const BufferId g = builder.buffer("g", feed_forward);

    builder.append(MatrixStep{.prologue = sum_and_norm(x, y, last_post, builder.vector(at("attn_norm"), width)),
                              .groups = {{builder.matrix(at("attn_q"), width, heads * hparams.key_length), q},
                                         {builder.matrix(at("attn_k"), width, kv_heads * hparams.key_length), k},
                                         {builder.matrix(at("attn_v"), width, kv_heads * hparams.value_length), v}}});
    builder.append(AttentionStep{
        .q = q,
        .k = k,
        .v = v,
        .output = a,
        .cache = builder.add_cache({kv_heads, hparams.key_length, hparams.value_length, window}),
        .heads = heads,
        .kv_heads = kv_heads,
        .head_size = hparams.key_length,
        .value_size = hparams.value_length,
        .q_norm = builder.vector(at("attn_q_norm"), hparams.key_length),
        .k_norm = builder.vector(at("attn_k_norm"), hparams.key_length),
        .epsilon = hparams.norm_epsilon,
        .rope = {.pairs = Rope::Pairs::halves,
                 .dimensions = hparams.rope_dimensions,
                 .base = slides ? hparams.rope_base_sliding : hparams.rope_base,
                 .factor = slides ? 1 : hparams.rope_factor,  // long-context scaling stretches full blocks only
                 .divisors = slides ? nullptr : divisors},
        .scale = hparams.attention_scale,
        .softcap = hparams.attention_softcap,
        .window = window,
    });
    builder.append(MatrixStep{.prologue = {.input = a},
                              .groups = {{builder.matrix(at("attn_output"), heads * hparams.value_length, width), o}}});
    builder.append(MatrixStep{.prologue = sum_and_norm(y, x, builder.vector(at("post_attention_norm"), width),
                                                       builder.vector(at("ffn_norm"), width)),
                              .groups = {{builder.matrix(at("ffn_gate"), width, feed_forward), g},
                                         {builder.matrix(at("ffn_up"), width, feed_forward), g}},
                              .epilogue = MatrixStep::Epilogue::gated,
                              .activation = Activation::gelu_tanh});
    builder.append(
        MatrixStep{.prologue = {.input = g}, .groups = {{builder.matrix(at("ffn_down"), feed_forward, width), o}}});
    last_post = builder.vector(at("post_ffw_norm"), width);
  }

  const char* head = builder.has("output") ? "output" : "token_embd";  // missing: tied to the embedding
  builder.append(MatrixStep{.prologue = sum_and_norm(x, y, last_post, builder.vector("output_norm", width)),
                            .groups = {{builder.matrix(head, width, hparams.vocabulary)}},
                            .epilogue = MatrixStep::Epilogue::logits,
                            .softcap = hparams.final_softcap});
}

}  // namespace gale::model
