// Which tensor of a GGUF file a tensor of a Hugging Face directory is, and how the two differ: tables, one per family.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gale::format {

// What the values of a GGUF file are, compared with the directory's.
enum class Change {
  none,
  rotary_rows,  // the rows of each head in another order (Recipe::head_rows); of biases, too
  plus_one,     // 1 + value; of weights only
};

struct NameRule {
  std::string_view module;  // without ".weight" or ".bias"
  std::string_view gguf;
  Change change = Change::none;
};

struct NameTable {
  std::span<const NameRule> whole;      // "model.norm"
  std::span<const NameRule> per_block;  // without "model.layers.N." and "blk.N."
};

const NameTable& llama_names();
const NameTable& gemma3_names();

struct MappedName {
  std::string name;
  Change change = Change::none;
};

// nullopt: the table does not know the tensor, and it keeps its own name.
std::optional<MappedName> map_name(const NameTable& table, std::string_view tensor);

}  // namespace gale::format
