// Steps of the llama family (SmolLM2, Llama 3, Mistral): grouped-query attention and SwiGLU.
#include <fmt/format.h>

#include "model/architectures.h"

namespace gale::model {

// x = E[token]. Per block: x += Wo attention(rope(Wq h), rope(Wk h), Wv h), h = rms(x; attn_norm);
// x += Wd (silu(Wg h) * (Wu h)), h = rms(x; ffn_norm). logits = Wout rms(x; output_norm).
void build_llama(ProgramBuilder& builder, const Hparams& hparams) {
  const uint32_t width = hparams.embedding_length;
  const BufferId x = builder.buffer("x", width);
  const auto rms = [&](Weight weight) {
    return Prologue{.kind = Prologue::Kind::norm, .input = x, .weight = weight, .epsilon = hparams.norm_epsilon};
  };
  const auto as_it_is = [](BufferId input) { return Prologue{.input = input}; };

  builder.append(EmbedStep{.weight = builder.matrix("token_embd", width, hparams.vocabulary), .output = x});
  const Rope rope{.pairs = Rope::Pairs::neighbours,
                  .dimensions = hparams.rope_dimensions,
                  .base = hparams.rope_base,
                  .factor = hparams.rope_factor,
                  .divisors = builder.optional_vector("rope_freqs", hparams.rope_dimensions / 2)};

  for (uint32_t block = 0; block < hparams.block_count; ++block) {
    const auto at = [&](const char* name) { return fmt::format("blk.{}.{}", block, name); };
    builder.refuse(at("attn_qkv"), "q, k and v must be separate tensors; convert the model again");
    builder.refuse(at("ffn_gate_inp"), "mixtures of experts are not supported for this architecture");
    const uint32_t heads = hparams.head_count[block], kv_heads = hparams.head_count_kv[block];
    const uint32_t feed_forward = hparams.feed_forward_length[block];
    const uint32_t window = hparams.slides[block] ? hparams.sliding_window : 0;
    const BufferId q = builder.buffer("q", heads * hparams.key_length);
    const BufferId k = builder.buffer("k", kv_heads * hparams.key_length);
    const BufferId v = builder.buffer("v", kv_heads * hparams.value_length);
    const BufferId a = builder.buffer("a", heads * hparams.value_length);
    const BufferId g = builder.buffer("g", feed_forward);

    builder.append(MatrixStep{.prologue = rms(builder.vector(at("attn_norm"), width)),
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
        .rope = rope,
        .scale = hparams.attention_scale,
        .softcap = hparams.attention_softcap,
        .window = window,
    });
    builder.append(MatrixStep{.prologue = as_it_is(a),
                              .groups = {{builder.matrix(at("attn_output"), heads * hparams.value_length, width), x}},
                              .epilogue = MatrixStep::Epilogue::add});
    builder.append(MatrixStep{.prologue = rms(builder.vector(at("ffn_norm"), width)),
                              .groups = {{builder.matrix(at("ffn_gate"), width, feed_forward), g},
                                         {builder.matrix(at("ffn_up"), width, feed_forward), g}},
                              .epilogue = MatrixStep::Epilogue::gated,
                              .activation = Activation::silu});
    builder.append(MatrixStep{.prologue = as_it_is(g),
                              .groups = {{builder.matrix(at("ffn_down"), feed_forward, width), x}},
                              .epilogue = MatrixStep::Epilogue::add});
  }

  const char* head = builder.has("output") ? "output" : "token_embd";  // missing: tied to the embedding
  builder.append(MatrixStep{.prologue = rms(builder.vector("output_norm", width)),
                            .groups = {{builder.matrix(head, width, hparams.vocabulary)}},
                            .epilogue = MatrixStep::Epilogue::logits,
                            .softcap = hparams.final_softcap});
}

}  // namespace gale::model
