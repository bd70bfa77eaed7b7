// Random models and their exact answers for tests, made by tests/oracle on first use and kept in a cache folder.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace gale::test {

// What `python3 -m oracle make` is asked for (tests/oracle/README.md explains each).
struct OracleOptions {
  std::string arch = "llama";
  std::string variant = "";   // "": the architecture's first
  std::string size = "tiny";  // "tiny", "small"
  std::string quant = "f32";  // type of the matrices, lower case family as oracle writes it: "q8_0", "q4_K"
  std::vector<std::string> overrides = {};  // "attn_v=q6_K"
  bool vocab = false;                       // with a byte-level BPE tokenizer
  std::string pre = "gpt-2";                // its pre-tokenizer
  int n_tokens = 0;                         // 0: the size's own
  int greedy = 16;
  int seed = 7;
  std::string hf =
      "";  // also a Hugging Face directory of this number format ("bf16", "fp8", ...), with its own answers
};

// A name that parametrised tests may have.
inline std::string test_name(const OracleOptions& options) {
  std::string out = options.arch + (options.variant.empty() ? "" : "_" + options.variant) + "_" + options.size + "_" +
                    options.quant + (options.vocab ? "_vocab" : "") + (options.hf.empty() ? "" : "_hf_" + options.hf);
  for (const std::string& override : options.overrides) out += "_" + override;
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return out;
}

// What GoogleTest prints for a parameter.
inline void PrintTo(const OracleOptions& options, std::ostream* out) {
  *out << test_name(options);
}

// Every Hugging Face directory of llama and gemma3, in every number format. Of the small size (wider than one block of
// 128 x 128, with a ragged last one) only a few, unless GALE_TEST_EVERYTHING is set: all of them take minutes to make.
inline std::vector<OracleOptions> mapped_directories() {
  std::vector<OracleOptions> out;
  for (const char* hf : {"f32", "f16", "bf16", "fp8", "fp8-block", "fp8-channel", "nvfp4", "nvfp4-pack", "mxfp4"}) {
    out.push_back({.arch = "llama", .variant = "llama3", .greedy = 0, .hf = hf});
    out.push_back({.arch = "llama", .variant = "tied", .greedy = 0, .hf = hf});
    out.push_back({.arch = "gemma3", .greedy = 0, .hf = hf});
  }
  const bool everything = std::getenv("GALE_TEST_EVERYTHING") != nullptr;
  const size_t tiny = out.size();
  for (size_t i = 0; i < tiny; ++i) {
    OracleOptions small = out[i];
    small.size = "small";
    const bool quick =
        small.variant == "llama3" && (small.hf == "fp8" || small.hf == "fp8-block" || small.hf == "bf16");
    if (quick || everything) out.push_back(small);
  }
  return out;
}

struct OracleModel {
  std::string path;                // model.gguf
  std::string directory;           // with hf only; the answers are this directory's then
  std::string text;                // prompt, with vocab only
  std::vector<int32_t> tokens;     // prompt [T]
  size_t vocabulary = 0;           // V
  std::vector<float> logits;       // [T x V]
  std::vector<int32_t> greedy;     // continuation
  std::vector<float> greedy_lead;  // lead of its logit over the second best
  size_t layer_width = 0;          // C
  std::vector<float> layers;       // residual stream [blocks + 1 x T x C]: embedding, then after each block

  std::span<const float> row(size_t token) const { return std::span(logits).subspan(token * vocabulary, vocabulary); }
};

namespace oracle_detail {

inline std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

// FNV-1a
inline uint64_t hash(const std::string& text, uint64_t state = 14695981039346656037ull) {
  for (unsigned char c : text) state = (state ^ c) * 1099511628211ull;
  return state;
}

// An interpreter with numpy, "" if there is none: GALE_PYTHON, the first of the path, or the system's own.
inline const std::string& python() {
  static const std::string found = [] {
    std::vector<std::string> candidates{"python3", "/usr/bin/python3"};
    if (const char* chosen = std::getenv("GALE_PYTHON")) candidates = {chosen};
    for (const std::string& candidate : candidates)
      if (std::system((quoted(candidate) + " -c 'import numpy' >/dev/null 2>&1").c_str()) == 0) return candidate;
    return std::string();
  }();
  return found;
}

inline std::filesystem::path cache_folder() {
  if (const char* chosen = std::getenv("GALE_TEST_CACHE")) return chosen;
  return std::filesystem::temp_directory_path() / ("gale-oracle-" + std::to_string(getuid()));
}

inline std::string oracle_folder() {
  return std::string(GALE_TEST_DIR) + "/oracle";
}

// Changes with any source of the oracle, so that no stale answer is used.
inline uint64_t source_hash() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(oracle_folder()))
    if (entry.path().extension() == ".py") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  uint64_t state = hash("");
  for (const auto& file : files) state = hash(contents(file), state);
  return state;
}

// Held while one process makes a model, so that the others wait for it instead of making the same.
class FileLock {
 public:
  explicit FileLock(const std::string& path) : file_(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
    if (file_ >= 0) flock(file_, LOCK_EX);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() {
    if (file_ >= 0) close(file_);
  }

 private:
  int file_;
};

template <class T>
std::vector<T> array(const std::string& file, const nlohmann::json& header, const std::string& name, size_t data) {
  if (!header.contains(name)) return {};
  const size_t begin = header[name]["data_offsets"][0], end = header[name]["data_offsets"][1];
  std::vector<T> out((end - begin) / sizeof(T));
  std::memcpy(out.data(), file.data() + data + begin, end - begin);
  return out;
}

}  // namespace oracle_detail

// Why oracle models cannot be made here ("python3 with numpy is missing"); "" if they can. Tests skip with this text:
// `if (auto why = oracle_missing(); !why.empty()) GTEST_SKIP() << why;`
inline std::string oracle_missing() {
  if (!oracle_detail::python().empty()) return "";
  return "python3 with numpy is missing (GALE_PYTHON may name an interpreter)";
}

// Makes the model, or finds it in the cache folder (GALE_TEST_CACHE, else one in the system's temporary folder).
// Several processes may ask at once. Throws std::runtime_error, with the oracle's words, if it fails: that fails the
// test.
inline OracleModel make_oracle_model(const OracleOptions& options) {
  namespace fs = std::filesystem;
  using namespace oracle_detail;
  std::string arguments = " make --arch " + quoted(options.arch) + " --size " + options.size + " --quant " +
                          quoted(options.quant) + " --seed " + std::to_string(options.seed) + " --greedy " +
                          std::to_string(options.greedy);
  if (!options.variant.empty()) arguments += " --variant " + quoted(options.variant);
  for (const std::string& override : options.overrides) arguments += " --override " + quoted(override);
  if (options.vocab) arguments += " --vocab --pre " + quoted(options.pre);
  if (options.n_tokens > 0) arguments += " --n-tokens " + std::to_string(options.n_tokens);
  if (!options.hf.empty()) arguments += " --hf " + options.hf;

  const fs::path cache = cache_folder();
  fs::create_directories(cache);
  const std::string key =
      options.arch + "-" + options.size + "-" + options.quant + "-" + std::to_string(hash(arguments, source_hash()));
  const fs::path folder = cache / key;
  if (!fs::exists(folder)) {
    FileLock lock((cache / (key + ".lock")).string());
    if (!fs::exists(folder)) {
      const fs::path fresh = cache / (key + ".new" + std::to_string(getpid()));
      fs::remove_all(fresh);
      fs::create_directories(fresh);
      const fs::path log = fresh / "log.txt";
      const std::string command = "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" + quoted(oracle_folder()) + " " +
                                  quoted(python()) + " -m oracle" + arguments + " --out " + quoted(fresh.string()) +
                                  " >" + quoted(log.string()) + " 2>&1";
      if (std::system(command.c_str()) != 0) {
        const std::string words = contents(log);
        fs::remove_all(fresh);
        throw std::runtime_error("oracle" + arguments + " failed:\n" + words);
      }
      fs::rename(fresh, folder);
    }
  }

  OracleModel model;
  model.path = (folder / "model.gguf").string();
  if (!options.hf.empty()) model.directory = (folder / "hf").string();
  const fs::path answers = options.hf.empty() ? folder : folder / "hf";
  const std::string file = contents(answers / "expected.safetensors");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  const auto header = nlohmann::json::parse(file.substr(sizeof header_bytes, header_bytes));
  const size_t data = sizeof header_bytes + header_bytes;
  model.tokens = array<int32_t>(file, header, "tokens", data);
  model.logits = array<float>(file, header, "logits", data);
  model.greedy = array<int32_t>(file, header, "greedy", data);
  model.greedy_lead = array<float>(file, header, "greedy_lead", data);
  model.layers = array<float>(file, header, "layers", data);
  model.vocabulary = header["logits"]["shape"][1];
  model.layer_width = header["layers"]["shape"][2];
  const auto info = nlohmann::json::parse(contents(answers / "expected.json"));
  model.text = info.value("text", "");
  return model;
}

// Mean squared error over the mean square of what was expected; NaN when anything is not finite, so that
// EXPECT_LT(nmse(...), bound) fails then.
inline double nmse(std::span<const float> expected, std::span<const float> got) {
  if (expected.size() != got.size() || expected.empty()) return std::numeric_limits<double>::quiet_NaN();
  double error = 0, power = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = static_cast<double>(got[i]) - expected[i];
    error += difference * difference;
    power += static_cast<double>(expected[i]) * expected[i];
  }
  return error / power;
}

}  // namespace gale::test
