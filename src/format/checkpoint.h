// A model as everything above sees it: named tensors and metadata, whatever the container was.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "format/metadata.h"
#include "format/tensor.h"

namespace gale::format {

class Checkpoint {
 public:
  // What a checkpoint is made of.
  struct Contents {
    std::vector<MappedFile> files;
    Metadata metadata;
    std::vector<Tensor> tensors;
    std::deque<std::string> texts;  // what views of metadata and tensors point to when no file holds it
    std::string metadata_file;      // the file that the settings come from, for messages
    std::string directory;          // where tokenizer and templates lie as files; "": in the metadata
  };

  // Opens, and reads no more than headers of:
  // - a GGUF file of version 2 or 3, or one part of a split one (the others are found beside it),
  // - a directory in the form of Hugging Face: config.json and model.safetensors, or model.safetensors.index.json and
  //   the files that it names,
  // - one .safetensors file with config.json beside it, also one of several that an index beside it names.
  // Tensors and settings have the names, shapes and values that a GGUF file of the same model has.
  // Errors name the file, the field or tensor, and what is wrong.
  static Result<Checkpoint> open(const std::string& path);
  // Error: two tensors have one name.
  static Result<Checkpoint> from(Contents contents);

  const Metadata& metadata() const { return contents_.metadata; }
  const std::vector<Tensor>& tensors() const { return contents_.tensors; }  // file order
  const Tensor* find(std::string_view name) const;                          // null: not there
  const std::vector<MappedFile>& files() const { return contents_.files; }
  const std::string& metadata_file() const { return contents_.metadata_file; }
  const std::string& directory() const { return contents_.directory; }

  // Hints for the pages of one tensor, or of some of its rows.
  void will_read(const Tensor& tensor) const;
  void release(const Tensor& tensor, uint64_t first_row, uint64_t count) const;
  void release(const Tensor& tensor) const { release(tensor, 0, tensor.rows()); }
  // Gives all pages of the files back (what is touched again is mapped again).
  void release_all() const {
    for (const MappedFile& file : contents_.files) file.release(file.bytes());
  }
  uint64_t total_bytes() const;  // sum of the files' sizes

 private:
  Contents contents_;
  std::unordered_map<std::string_view, size_t> index_;  // keys are views of the names in the tensors
};

}  // namespace gale::format
