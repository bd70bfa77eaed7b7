// The tokenizer of a directory as models are published in.
#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "text/json_document.h"
#include "text/vocabulary_files.h"

namespace gale::text {
namespace {

namespace fs = std::filesystem;

// Files that are read here are mapped one by one; those that aren't there are empty. A link that leads nowhere, as a
// cleaned cache has, is there and can't be read: without that file the model would silently speak otherwise.
class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}

  std::string path_of(std::string_view name) const { return (fs::path(path_) / name).string(); }

  Result<std::string_view> read(const std::string& name) {
    std::error_code error;
    if (fs::symlink_status(path_of(name), error).type() == fs::file_type::not_found) return std::string_view();
    auto file = MappedFile::open(path_of(name));
    if (!file) return fail(ErrorKind::io, "{}", file.error().message);
    const auto bytes = file->bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    files_.push_back(std::move(*file));
    return text;
  }

  // The first name in the order of the alphabet that ends like this; empty: none does.
  std::string find_ending(std::string_view ending) const {
    std::string found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path_, error)) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(ending) && (found.empty() || name < found)) found = name;
    }
    return found;
  }

 private:
  std::string path_;
  std::vector<MappedFile> files_;
};

// Base64 and a rank in the first line. A SentencePiece model begins with the byte 0x0A, a field's tag.
bool is_tiktoken(std::string_view text) {
  const std::string_view line = text.substr(0, std::min<size_t>(text.find('\n'), 200));
  const size_t space = line.find(' ');
  return space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
         std::all_of(line.begin(), line.begin() + static_cast<ptrdiff_t>(space), [](char c) { return c > ' '; }) &&
         line[space + 1] >= '0' && line[space + 1] <= '9';
}

// chat_template.json: {"chat_template": "..."}
Result<std::string> template_in_json(std::string_view text) {
  const auto document = JsonDocument::parse(text, "chat_template.json");
  if (!document) return document.error();
  const auto value = document->root().member("chat_template");
  if (!value) return value.error();
  const auto inner = value->text();
  if (!inner) return inner.error();
  return std::string(*inner);
}

Result<Vocabulary> read_from(Folder& folder, const std::string& path) {
  SideFiles beside;
  for (const auto& [name, target] :
       {std::pair{"tokenizer_config.json", &beside.tokenizer_config},
        std::pair{"special_tokens_map.json", &beside.special_tokens_map},
        std::pair{"added_tokens.json", &beside.added_tokens},
        std::pair{"generation_config.json", &beside.generation_config}, std::pair{"config.json", &beside.config},
        std::pair{"chat_template.jinja", &beside.chat_template}}) {
    const auto text = folder.read(name);
    if (!text) return text.error();
    *target = *text;
  }
  std::string chat_template;
  if (beside.chat_template.empty()) {
    const auto text = folder.read("chat_template.json");
    if (!text) return text.error();
    if (!text->empty()) {
      auto inner = template_in_json(*text);
      if (!inner) return std::move(inner).error();
      chat_template = std::move(*inner);
      beside.chat_template = chat_template;
    }
  }
  const auto json = folder.read("tokenizer.json");
  if (!json) return json.error();
  if (!json->empty()) return read_tokenizer_json(*json, beside);
  const auto tekken = folder.read("tekken.json");
  if (!tekken) return tekken.error();
  if (!tekken->empty()) return read_tekken(*tekken, beside);
  for (const std::string& name : {std::string("tokenizer.model"), std::string("tiktoken.model"),
                                  folder.find_ending(".tiktoken"), folder.find_ending(".model")}) {
    if (name.empty()) continue;
    const auto text = folder.read(name);
    if (!text) return text.error();
    if (text->empty()) continue;
    auto vocabulary = is_tiktoken(*text) ? read_tiktoken(*text, beside) : read_sentencepiece(*text, beside);
    if (!vocabulary) return in_file(folder.path_of(name), vocabulary.error());
    return vocabulary;
  }
  return fail(ErrorKind::not_found,
              "{} has no tokenizer: tokenizer.json, tokenizer.model, tekken.json or a *.tiktoken file is needed", path);
}

}  // namespace

Result<Vocabulary> read_vocabulary_directory(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return fail(ErrorKind::not_found, "{} is not a directory", path);
  Folder folder(path);
  auto vocabulary = read_from(folder, path);
  if (!vocabulary) return in_file(path, vocabulary.error());
  return vocabulary;
}

}  // namespace gale::text
