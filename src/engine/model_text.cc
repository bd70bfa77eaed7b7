// Finds a model's vocabulary and templates in its metadata or its directory, and turns conversations into tokens.
#include "engine/model_text.h"

#include <ctime>
#include <filesystem>

#include "engine/vocabulary_metadata.h"

namespace gale::engine {
namespace {

Result<text::ChatTemplates> compile_templates(const text::Vocabulary& vocabulary) {
  std::vector<std::pair<std::string, std::string_view>> sources;
  if (!vocabulary.chat_template.empty()) sources.emplace_back(text::ChatTemplates::kDefault, vocabulary.chat_template);
  for (const auto& [name, source] : vocabulary.named_chat_templates) {
    if (name == text::ChatTemplates::kDefault && !vocabulary.chat_template.empty()) continue;
    sources.emplace_back(name, source);
  }
  return text::ChatTemplates::compile(sources);
}

std::string piece_or_nothing(const text::Tokenizer& tokenizer, std::optional<int64_t> token) {
  const bool there = token && *token >= 0 && static_cast<uint64_t>(*token) < tokenizer.size();
  return there ? tokenizer.piece(static_cast<text::Token>(*token), /*special=*/true) : std::string();
}

}  // namespace

// In the order of dependence: what comes later points into what comes before.
struct ModelText::State {
  std::optional<format::Checkpoint> checkpoint;
  std::optional<text::Vocabulary> vocabulary;
  std::optional<text::Tokenizer> tokenizer;
  text::ChatTemplates templates;
};

ModelText::ModelText() : state_(std::make_unique<State>()) {}
ModelText::ModelText(std::unique_ptr<State> state) : state_(std::move(state)) {}
ModelText::~ModelText() = default;
ModelText::ModelText(ModelText&&) noexcept = default;
ModelText& ModelText::operator=(ModelText&&) noexcept = default;

Result<ModelText> ModelText::with(std::unique_ptr<State> state, Result<std::optional<text::Vocabulary>> vocabulary) {
  if (!vocabulary) return std::move(vocabulary).error();
  state->vocabulary = std::move(*vocabulary);
  if (!state->vocabulary) return ModelText(std::move(state));
  auto tokenizer = text::Tokenizer::create(state->vocabulary->source());
  if (!tokenizer) return std::move(tokenizer).error();
  state->tokenizer = std::move(*tokenizer);
  auto templates = compile_templates(*state->vocabulary);
  if (!templates) return std::move(templates).error();
  state->templates = std::move(*templates);
  return ModelText(std::move(state));
}

Result<ModelText> ModelText::open(const std::string& path) {
  auto state = std::make_unique<State>();
  std::error_code error;
  const bool is_directory = std::filesystem::is_directory(path, error);
  if (is_directory || path.ends_with(".safetensors")) {
    const std::string folder = is_directory ? path : std::filesystem::path(path).parent_path().string();
    auto vocabulary = text::read_vocabulary_directory(folder.empty() ? "." : folder);
    if (!vocabulary) return std::move(vocabulary).error();
    auto text = with(std::move(state), std::optional<text::Vocabulary>(std::move(*vocabulary)));
    return text ? std::move(text) : in_file(path, text.error());
  }
  auto checkpoint = format::Checkpoint::open(path);
  if (!checkpoint) return std::move(checkpoint).error();
  state->checkpoint = std::move(*checkpoint);
  auto vocabulary = read_vocabulary(*state->checkpoint);
  auto text = with(std::move(state), std::move(vocabulary));
  if (!text) return in_file(path, text.error());
  if (!text->has_tokenizer()) return fail(ErrorKind::unsupported, "{}: the file has no vocabulary", path);
  return text;
}

Result<ModelText> ModelText::of(const format::Checkpoint& checkpoint) {
  return with(std::make_unique<State>(), read_vocabulary(checkpoint));
}

bool ModelText::has_tokenizer() const {
  return state_->tokenizer.has_value();
}
const text::Tokenizer& ModelText::tokenizer() const {
  return *state_->tokenizer;
}
bool ModelText::has_chat_template() const {
  return !state_->templates.empty();
}

Result<std::vector<text::RenderedPart>> ModelText::render(const text::Conversation& conversation,
                                                          bool add_generation_prompt) const {
  const auto chosen = state_->templates.choose(conversation);
  if (!chosen) return chosen.error();
  text::ChatRenderOptions options;
  options.add_generation_prompt = add_generation_prompt;
  options.bos_token = tokenizer().piece(tokenizer().bos(), /*special=*/true);
  options.eos_token = tokenizer().piece(tokenizer().eos(), /*special=*/true);
  const text::VocabularySource& facts = state_->vocabulary->facts;
  options.unk_token = piece_or_nothing(tokenizer(), facts.unknown);
  options.pad_token = piece_or_nothing(tokenizer(), facts.padding);
  options.now_unix_seconds = static_cast<int64_t>(std::time(nullptr));
  return (*chosen)->render(conversation, options);
}

std::vector<text::Token> ModelText::encode(std::span<const text::RenderedPart> rendered, size_t* lost) const {
  std::vector<text::PromptPart> parts;
  for (const text::RenderedPart& part : rendered) parts.push_back({part.text, part.from_template});
  std::vector<text::Token> tokens = tokenizer().encode(parts, {.special = true}, lost);
  // Never an EOS: the model goes on here.
  if (tokenizer().adds_bos() && (tokens.empty() || tokens.front() != tokenizer().bos())) {
    tokens.insert(tokens.begin(), tokenizer().bos());
  }
  return tokens;
}

Result<std::vector<text::Token>> ModelText::encode_chat(const text::Conversation& conversation,
                                                        bool add_generation_prompt, size_t* lost) const {
  const auto rendered = render(conversation, add_generation_prompt);
  if (!rendered) return rendered.error();
  return encode(*rendered, lost);
}

}  // namespace gale::engine
