// The text side of a model: its tokenizer and chat templates, which can be had without the weights.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/checkpoint.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/vocabulary_files.h"

namespace gale::engine {

class ModelText {
 public:
  ModelText();  // no tokenizer, no template
  ~ModelText();
  ModelText(ModelText&&) noexcept;
  ModelText& operator=(ModelText&&) noexcept;

  // Opens what holds the vocabulary and no more: a GGUF file (of a split one any part), a directory with the files of a
  // tokenizer, or a .safetensors file with them beside it. Error: it has none.
  static Result<ModelText> open(const std::string& path);
  // That of an open model, which must outlive this. Without a tokenizer if the model has none.
  static Result<ModelText> of(const format::Checkpoint& checkpoint);

  bool has_tokenizer() const;
  const text::Tokenizer& tokenizer() const;  // only if has_tokenizer()
  bool has_chat_template() const;

  // The conversation by the template that fits it. Errors: no template; what ChatTemplate::render says.
  Result<std::vector<text::RenderedPart>> render(const text::Conversation& conversation,
                                                 bool add_generation_prompt = true) const;
  // Control tokens only where the template wrote them; exactly one BOS where the model wants one, whether or not the
  // template writes it. `lost` (may be null) gets the number of bytes that the vocabulary can't spell.
  std::vector<text::Token> encode(std::span<const text::RenderedPart> rendered, size_t* lost = nullptr) const;
  // Both.
  Result<std::vector<text::Token>> encode_chat(const text::Conversation& conversation,
                                               bool add_generation_prompt = true, size_t* lost = nullptr) const;

 private:
  struct State;
  static Result<ModelText> with(std::unique_ptr<State> state, Result<std::optional<text::Vocabulary>> vocabulary);
  explicit ModelText(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gale::engine
