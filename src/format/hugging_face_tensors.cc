// Finds out from types and neighbours how each weight is stored, checks that its parts fit, and writes its recipe.
#include "format/hugging_face_tensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/log.h"

namespace gale::format {
namespace {

// Numbers that belong to a weight X.weight (or X.weight_packed) and say nothing by themselves.
constexpr std::string_view kCompanions[] = {"weight_scale",        "weight_scale_inv", "weight_scale_2",
                                            "weight_global_scale", "input_scale",      "input_global_scale"};
// Of caches in FP8, and what models compute again when they are loaded.
constexpr std::string_view kNotNeeded[] = {".k_scale", ".v_scale", ".rotary_emb.inv_freq"};
// Parts of weights in formats that are not known here; to ignore them would give wrong values.
constexpr std::string_view kUnknownParts[] = {
    "qweight",      "qzeros",          "g_idx",  "weight_zero_point", "weight_g_idx",
    "weight_shape", "pre_quant_scale", "absmax", "weight.absmax",     "weight.quant_map"};

constexpr uint64_t kNvfp4Group = 16, kMxfp4Block = 32;

bool is_fp8(StoredType type) {
  return type == StoredType::f8_e4m3 || type == StoredType::f8_e5m2;
}
bool is_scale(StoredType type) {
  return type == StoredType::f32 || type == StoredType::f16 || type == StoredType::bf16;
}

class Joiner {
 public:
  Joiner(const std::vector<StoredFile>& files, const HuggingFaceSettings& settings)
      : files_(files), settings_(settings) {}

  Result<std::vector<Tensor>> join() {
    if (auto status = collect(); !status) return std::move(status).error();
    for (uint32_t file = 0; file < files_.size(); ++file) {
      for (const StoredTensor& stored : files_[file].tensors) {
        file_ = file;
        stored_ = &stored;
        if (auto status = add(); !status) return std::move(status).error();
      }
    }
    note_cost();
    return std::move(out_);
  }

 private:
  template <class... Args>
  Error wrong(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) const {
    return fail(kind, "{}: tensor '{}': {}", files_[file_].path, stored_->name,
                fmt::format(format, std::forward<Args>(args)...));
  }

  // The tensor BASE.PART or null.
  const StoredTensor* part(std::string_view base, std::string_view name) const {
    const auto at = all_.find(fmt::format("{}.{}", base, name));
    return at == all_.end() ? nullptr : at->second;
  }

  Status collect() {
    for (const StoredFile& file : files_)
      for (const StoredTensor& stored : file.tensors)
        if (const auto [at, inserted] = all_.emplace(stored.name, &stored); !inserted)
          return fail(ErrorKind::invalid_input, "{}: tensor '{}': it is in another file of the model, too", file.path,
                      stored.name);
    return {};
  }

  // Belongs to another tensor, or to nothing that is computed here.
  bool is_left_out(std::string_view base, std::string_view last) const {
    const std::string_view name = stored_->name;
    if (std::any_of(std::begin(kNotNeeded), std::end(kNotNeeded), [&](auto end) { return name.ends_with(end); }))
      return true;
    if (name.ends_with("_scales")) return all_.contains(fmt::format("{}_blocks", name.substr(0, name.size() - 7)));
    return std::find(std::begin(kCompanions), std::end(kCompanions), last) != std::end(kCompanions) &&
           (part(base, "weight") || part(base, "weight_packed"));
  }

  Status add() {
    const std::string_view name = stored_->name;
    const size_t dot = name.rfind('.');
    const std::string_view base = dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
    const std::string_view last = name.substr(dot == std::string_view::npos ? 0 : dot + 1);
    for (const std::string_view unknown : kUnknownParts)
      if (name.ends_with(unknown) && name.substr(0, name.size() - unknown.size()).ends_with('.'))
        return wrong(ErrorKind::unsupported, "weights that are quantised in this way are not supported");
    if (is_left_out(base, last)) return {};
    if (stored_->values() == 0) {
      log(LogLevel::debug, "{}: tensor '{}' has no values and is left out", files_[file_].path, name);
      return {};
    }
    if (last == "weight_packed") return add_packed(base);
    if (last == "weight") {
      if (const StoredTensor* factor = part(base, "weight_scale_2"))
        return add_nvfp4(std::string(name), part(base, "weight_scale"), factor, /*divides=*/false);
      for (const char* scale_name : {"weight_scale_inv", "weight_scale"})
        if (const StoredTensor* scale = part(base, scale_name)) return add_scaled(*scale);
    }
    if (name.ends_with("_blocks")) {
      const std::string experts(name.substr(0, name.size() - 7));
      if (const auto at = all_.find(experts + "_scales"); at != all_.end()) return add_blocks(experts, *at->second);
    }
    if (is_fp8(stored_->type) && settings_.quantisation.present)
      return wrong(ErrorKind::invalid_input,
                   "it is {}, but there is no scale for it: '{}_scale_inv' or '{}_scale' was looked for",
                   stored_type_info(stored_->type).name, name, name);
    return add_plain();
  }

  // ---- forms

  Status add_plain() {
    auto recipe = std::make_shared<Recipe>();
    recipe->kind = Recipe::Kind::copy;
    const auto same = same_bytes_type(stored_->type);
    if (!same) recipe->kind = Recipe::Kind::number;
    return finish(stored_->name, same.value_or(TensorType::f32), stored_->sizes(), std::move(recipe));
  }

  Status add_scaled(const StoredTensor& scale) {
    if (!is_fp8(stored_->type) && stored_->type != StoredType::i8)
      return wrong(ErrorKind::unsupported,
                   "a scale '{}' belongs to it, which is supported for F8_E4M3, F8_E5M2 and I8, "
                   "but it is {}",
                   scale.name, describe(*stored_));
    if (stored_->dimensions != 2 || !is_scale(scale.type) || scale.values() == 0) return misfit(scale, "");
    const uint64_t rows = stored_->shape[0], columns = stored_->shape[1];
    const Quantisation& blocks = settings_.quantisation;
    // One for all, one per row (as a list or a column), or one per block.
    uint64_t scale_rows = 1, scale_columns = 1;
    if (scale.dimensions > 0) scale_rows = scale.shape[0];
    if (scale.dimensions > 1) scale_columns = scale.shape[1];
    if (scale.dimensions > 2) return misfit(scale, "");
    auto recipe = std::make_shared<Recipe>();
    recipe->kind = Recipe::Kind::scaled;
    recipe->scales = scale.bytes;
    recipe->scale_type = scale.type;
    recipe->scale_columns = scale_columns;
    const uint64_t block_rows = divide_up(rows, blocks.block_rows),
                   block_columns = divide_up(columns, blocks.block_columns);
    if (scale_rows == 1 && scale_columns == 1) {
      recipe->scale_height = rows;
      recipe->scale_width = columns;
    } else if (scale_rows == rows && scale_columns == 1) {
      recipe->scale_width = columns;
    } else if (scale_rows == block_rows && scale_columns == block_columns) {
      recipe->scale_height = blocks.block_rows;
      recipe->scale_width = blocks.block_columns;
    } else if (scale_rows == rows && columns % scale_columns == 0) {
      recipe->scale_width = columns / scale_columns;
    } else {
      return misfit(scale, fmt::format("expected [], [{}, 1] or [{}, {}] (blocks of {} x {})", rows, block_rows,
                                       block_columns, blocks.block_rows, blocks.block_columns));
    }
    return finish(stored_->name, TensorType::f32, stored_->sizes(), std::move(recipe));
  }

  // compressed-tensors: the name says that values share bytes.
  Status add_packed(std::string_view base) {
    const std::string name = fmt::format("{}.weight", base);
    const StoredTensor* scale = part(base, "weight_scale");
    if (const StoredTensor* factor = part(base, "weight_global_scale"))
      return add_nvfp4(name, scale, factor, /*divides=*/true);
    if (scale && stored_->type == StoredType::u8 && scale->type == StoredType::u8) {
      if (stored_->dimensions < 2) return misfit(*scale, "");
      return add_mxfp4(name, stored_->sizes().first(stored_->dimensions - 1), stored_->sizes().back(), *scale);
    }
    return wrong(ErrorKind::unsupported,
                 "it is {}; of packed weights only NVFP4 (U8 with '{}.weight_scale' in F8_E4M3 and "
                 "'{}.weight_global_scale') and MXFP4 are supported",
                 describe(*stored_), base, base);
  }

  Status add_nvfp4(const std::string& name, const StoredTensor* scale, const StoredTensor* factor, bool divides) {
    if (!scale) return wrong(ErrorKind::invalid_input, "its scales are missing: '{}_scale'", name);
    if (stored_->type != StoredType::u8 || stored_->dimensions != 2)
      return wrong(ErrorKind::invalid_input, "it is {}, but values in NVFP4 are U8 with two dimensions",
                   describe(*stored_));
    const uint64_t rows = stored_->shape[0], columns = 2 * stored_->shape[1];
    const bool fits = scale->type == StoredType::f8_e4m3 && scale->dimensions == 2 && scale->shape[0] == rows &&
                      columns % kNvfp4Group == 0 && scale->shape[1] == columns / kNvfp4Group;
    if (!fits) return misfit(*scale, fmt::format("expected F8_E4M3 [{}, {}]", rows, divide_up(columns, kNvfp4Group)));
    if (factor->values() != 1 || !is_scale(factor->type)) return misfit(*factor, "expected one number, F32");
    auto recipe = std::make_shared<Recipe>();
    recipe->kind = Recipe::Kind::nvfp4;
    recipe->scales = scale->bytes;
    recipe->factor = factor->bytes;
    recipe->factor_type = factor->type;
    recipe->factor_divides = divides;
    const uint64_t shape[] = {rows, columns};
    return finish(name, TensorType::f32, shape, std::move(recipe));
  }

  // gpt-oss: [experts, rows, blocks, 16] and a byte of scale per block.
  Status add_blocks(const std::string& name, const StoredTensor& scale) {
    const std::span<const uint64_t> sizes = stored_->sizes();
    if (stored_->type != StoredType::u8 || sizes.size() < 3 || sizes.back() != kMxfp4Block / 2)
      return wrong(ErrorKind::invalid_input, "it is {}, but MXFP4 blocks are U8 [..., rows, blocks, {}]",
                   describe(*stored_), kMxfp4Block / 2);
    return add_mxfp4(name, sizes.first(sizes.size() - 2), sizes[sizes.size() - 2] * sizes.back(), scale);
  }

  Status add_mxfp4(const std::string& name, std::span<const uint64_t> outer, uint64_t row_bytes,
                   const StoredTensor& scale) {
    std::vector<uint64_t> shape(outer.begin(), outer.end()), expected = shape;
    shape.push_back(2 * row_bytes);
    expected.push_back(2 * row_bytes / kMxfp4Block);
    const bool one_byte = scale.type == StoredType::u8 || scale.type == StoredType::f8_e8m0;
    const std::span<const uint64_t> found = scale.sizes();
    if (!one_byte || shape.back() % kMxfp4Block != 0 ||
        !std::equal(found.begin(), found.end(), expected.begin(), expected.end()))
      return misfit(scale, fmt::format("expected U8 [{}]", fmt::join(expected, ", ")));
    auto recipe = std::make_shared<Recipe>();
    recipe->kind = Recipe::Kind::mxfp4;
    recipe->scales = scale.bytes;
    return finish(name, TensorType::mxfp4, shape, std::move(recipe));
  }

  Error misfit(const StoredTensor& scale, const std::string& expected) const {
    return wrong(ErrorKind::invalid_input, "its scale '{}' is {}, which does not fit {}{}{}", scale.name,
                 describe(scale), describe(*stored_), expected.empty() ? "" : ": ", expected);
  }

  // ---- names, shapes, and what the family changes

  // `shape` has the contiguous dimension last.
  Status finish(const std::string& name, TensorType type, std::span<const uint64_t> shape,
                std::shared_ptr<Recipe> recipe) {
    Tensor tensor;
    tensor.name = name;
    tensor.type = type;
    tensor.file = file_;
    set_shape(tensor, shape);
    recipe->stored = stored_->type;
    recipe->data = stored_->bytes;
    if (settings_.names) {
      if (auto mapped = map_name(*settings_.names, name)) {
        tensor.name = std::move(mapped->name);
        if (auto status = change(tensor, *recipe, mapped->change); !status) return status;
      }
    }
    if (recipe->kind == Recipe::Kind::copy && recipe->head_rows == 0) {
      tensor.bytes = stored_->bytes;
    } else {
      tensor.recipe = std::move(recipe);
    }
    out_.push_back(std::move(tensor));
    return {};
  }

  static void set_shape(Tensor& tensor, std::span<const uint64_t> shape) {
    const size_t most = tensor.shape.size();
    tensor.dimensions = static_cast<int>(std::clamp<size_t>(shape.size(), 1, most));
    // A single number is a vector of one; what goes beyond four dimensions is counted together.
    for (size_t d = 0; d < shape.size(); ++d) tensor.shape[std::min(d, most - 1)] *= shape[shape.size() - 1 - d];
  }

  Status change(Tensor& tensor, Recipe& recipe, Change change) {
    // Weights are numbers to compute with, whatever they are stored as.
    const bool is_float =
        tensor.type == TensorType::f32 || tensor.type == TensorType::f16 || tensor.type == TensorType::bf16;
    const bool plain = recipe.kind == Recipe::Kind::copy || recipe.kind == Recipe::Kind::number;
    if (change == Change::plus_one && !plain)
      return wrong(ErrorKind::unsupported, "norms are not quantised in any known model");
    if (plain && (!is_float || change == Change::plus_one)) {
      recipe.kind = Recipe::Kind::number;
      tensor.type = TensorType::f32;
      if (change == Change::plus_one) recipe.addend = 1;
    }
    if (change != Change::rotary_rows) return {};
    const uint64_t rows = tensor.dimensions == 1 ? tensor.row_length() : tensor.rows();
    recipe.head_rows = settings_.head_rows;
    if (recipe.head_rows == 0 || recipe.head_rows % 2 != 0 || rows % recipe.head_rows != 0)
      return wrong(ErrorKind::invalid_input, "it is {}, which are no whole heads of {} rows", describe(*stored_),
                   recipe.head_rows);
    return {};
  }

  // Says once how much memory the formats cost for which there are no kernels.
  void note_cost() const {
    uint64_t stored = 0, decoded = 0;
    for (const Tensor& tensor : out_) {
      if (!tensor.recipe || (tensor.recipe->kind != Recipe::Kind::scaled && tensor.recipe->kind != Recipe::Kind::nvfp4))
        continue;
      stored += tensor.stored().size();
      decoded += tensor.byte_size();
    }
    if (stored > 0)
      log(LogLevel::info,
          "weights in FP8 or NVFP4 become F32 when they are loaded: {:.1f} MB in the files, {:.1f} MB in memory",
          static_cast<double>(stored) * 1e-6, static_cast<double>(decoded) * 1e-6);
  }

  const std::vector<StoredFile>& files_;
  const HuggingFaceSettings& settings_;
  std::unordered_map<std::string_view, const StoredTensor*> all_;
  std::vector<Tensor> out_;
  uint32_t file_ = 0;  // of the tensor that is being added
  const StoredTensor* stored_ = nullptr;
};

}  // namespace

Result<std::vector<Tensor>> join_tensors(const std::vector<StoredFile>& files, const HuggingFaceSettings& settings) {
  return Joiner(files, settings).join();
}

}  // namespace gale::format
