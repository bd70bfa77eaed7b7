// Rows of tensors: views of a file where it has them, made by the recipe where it doesn't.
#include "format/tensor.h"

#include "format/recipe.h"

namespace gale::format {

std::span<const std::byte> Tensor::stored() const {
  return recipe ? recipe->data : bytes;
}

std::span<const std::byte> Tensor::rows(uint64_t first, uint64_t count, std::vector<std::byte>& buffer) const {
  const uint64_t row = row_bytes();
  if (!recipe) return bytes.subspan(first * row, count * row);
  if (buffer.size() < count * row) buffer.resize(count * row);
  make_rows(*recipe, *this, first, count, buffer.data());
  return std::span<const std::byte>(buffer).first(count * row);
}

Status decode_rows(const Tensor& tensor, uint64_t first, uint64_t count, std::vector<std::byte>& buffer,
                   std::span<float> out) {
  if (auto status = decode(tensor.type, tensor.rows(first, count, buffer), out); !status)
    return fail(status.error().kind, "tensor '{}': {}", tensor.name, status.error().message);
  return {};
}

}  // namespace gale::format
