// A model file's vocabulary for tests: the file, and the views that a Tokenizer is made from.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "format/gguf.h"
#include "text/tokenizer.h"

namespace gale::text {

// Keeps the file open as long as the tokenizer lives.
struct ModelVocabulary {
  std::unique_ptr<MappedFile> file;
  format::GgufContents contents;
  std::vector<int64_t> kinds;
  VocabularySource source;
};

inline Result<std::unique_ptr<ModelVocabulary>> read_vocabulary(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return file.error();
  auto v = std::make_unique<ModelVocabulary>();
  v->file = std::make_unique<MappedFile>(std::move(*file));
  auto contents = format::parse_gguf(v->file->bytes(), path);
  if (!contents) return contents.error();
  v->contents = std::move(*contents);
  const format::Metadata& meta = v->contents.metadata;
  const auto key = [](const char* name) { return std::string("tokenizer.ggml.") + name; };
  // Absent keys and keys of another type are the same here: tests look at good files.
  const auto id = [&](const char* name) {
    auto r = meta.integer(key(name));
    return r ? *r : std::optional<int64_t>();
  };
  const auto flag = [&](const char* name) {
    auto r = meta.boolean(key(name));
    return r ? *r : std::optional<bool>();
  };
  const auto text = [&](const char* name) {
    auto r = meta.text(key(name));
    return r ? r->value_or("") : std::string_view();
  };
  VocabularySource& s = v->source;
  s.model = text("model");
  s.pre_tokenizer = text("pre");
  if (auto r = meta.texts(key("tokens")); r && *r != nullptr) s.tokens = **r;
  if (auto r = meta.texts(key("merges")); r && *r != nullptr) s.merges = **r;
  if (auto r = meta.floats(key("scores")); r && *r != nullptr) s.scores = **r;
  if (auto r = meta.integers(key("token_type")); r && r->has_value()) v->kinds = std::move(**r);
  s.kinds = v->kinds;
  s.bos = id("bos_token_id");
  s.eos = id("eos_token_id");
  s.eot = id("eot_token_id");
  s.eom = id("eom_token_id");
  s.unknown = id("unknown_token_id");
  s.padding = id("padding_token_id");
  s.add_bos = flag("add_bos_token");
  s.add_eos = flag("add_eos_token");
  s.add_space_prefix = flag("add_space_prefix");
  return v;
}

// Where a model file for tests lies: the folder in GALE_MODELS, or models/ of the repository. Empty: it is not there.
inline std::string find_model(const std::string& name) {
  const char* folder = std::getenv("GALE_MODELS");
  for (const std::string& f :
       {folder != nullptr ? std::string(folder) : std::string(), std::string(GALE_TEST_DIR "/../models")}) {
    if (!f.empty() && std::filesystem::exists(f + "/" + name)) return f + "/" + name;
  }
  return {};
}

}  // namespace gale::text
