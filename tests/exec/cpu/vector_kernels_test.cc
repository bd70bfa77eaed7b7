// Vector kernels against double arithmetic, and every instruction set against the scalar one, bit for bit.
#include "exec/cpu/vector_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace gale::exec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<Isa> supported_sets() {
  std::vector<Isa> sets;
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (isa <= detect_isa()) sets.push_back(isa);
  }
  return sets;
}

std::vector<size_t> sizes() {
  std::vector<size_t> all;
  for (size_t n = 1; n <= 80; ++n) all.push_back(n);
  all.push_back(576);
  all.push_back(2048);
  return all;
}

std::vector<float> random_values(size_t n, uint32_t seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

// Distance in units of the last place of `expected` rounded to float (of 2^-149 for subnormals).
double ulps(float actual, double expected) {
  if (std::isnan(expected) || std::isinf(static_cast<float>(expected))) {
    const float rounded = static_cast<float>(expected);
    return (std::isnan(rounded) && std::isnan(actual)) || rounded == actual ? 0 : kInfinity;
  }
  const float size = std::fabs(static_cast<float>(expected));
  const double unit = static_cast<double>(std::nextafter(size, kInfinity)) - size;
  return std::fabs(actual - expected) / unit;
}

// The same bits, or NaN on both sides.
void expect_same(const std::vector<float>& actual, const std::vector<float>& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(actual[i]) && std::isnan(expected[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(actual[i]), std::bit_cast<uint32_t>(expected[i]))
        << what << " element " << i << ": " << actual[i] << " and " << expected[i];
  }
}

// Largest error over the norm of the expected values; NaN if anything is NaN.
double relative_error(const std::vector<float>& actual, const std::vector<double>& expected) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(error / norm);
}

// Everything a kernel must not touch beyond the end is checked by these guards.
struct Guarded {
  explicit Guarded(const std::vector<float>& values) : all(values), size(values.size()) {
    all.resize(size + 40, 777.0f);
  }
  float* data() { return all.data(); }
  std::vector<float> values() const {
    for (size_t i = size; i < all.size(); ++i) EXPECT_EQ(all[i], 777.0f) << "written past the end, at " << i - size;
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size)};
  }
  std::vector<float> all;
  size_t size;
};

double silu(double x) {
  return x / (1 + std::exp(-x));
}
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(VectorKernels, rms_norm_matches_double) {
  for (Isa isa : supported_sets()) {
    for (size_t n : sizes()) {
      const auto x = random_values(n, 1, 30), weight = random_values(n, 2), residual = random_values(n, 3);
      for (float epsilon : {0.0f, 1e-6f, 100.0f}) {
        double squares = 0;
        for (float v : x) squares += static_cast<double>(v) * v;
        const double inverse = 1 / std::sqrt(squares / static_cast<double>(n) + epsilon);
        std::vector<double> expected(n), expected_sum(n);
        for (size_t i = 0; i < n; ++i) {
          expected[i] = x[i] * inverse * weight[i];
          expected_sum[i] = residual[i] + expected[i];
        }
        Guarded out(std::vector<float>(n, 5.0f)), in_place(x), sum(std::vector<float>(n, 5.0f));
        const VectorKernels& kernels = vector_kernels(isa);
        kernels.rms_norm(x.data(), weight.data(), epsilon, n, out.data());
        kernels.rms_norm(in_place.data(), weight.data(), epsilon, n, in_place.data());
        kernels.add_rms_norm(x.data(), weight.data(), epsilon, residual.data(), n, sum.data());
        // Rounding: at most n / 16 + 6 additions halve into the root, and four more operations.
        const double bound = (static_cast<double>(n) / 32 + 8) * 0x1p-24;
        ASSERT_LT(relative_error(out.values(), expected), bound) << name(isa) << " n " << n;
        ASSERT_LT(relative_error(sum.values(), expected_sum), 4 * bound) << name(isa) << " n " << n;
        expect_same(in_place.values(), out.values(), "in place");
      }
    }
  }
}

TEST(VectorKernels, sums_use_sixteen_lanes_in_the_promised_order) {
  const size_t n = 53;
  const auto x = random_values(n, 9), ones = std::vector<float>(n, 1.0f);
  float lanes[16] = {};
  for (size_t i = 0; i < n; ++i) lanes[i % 16] = std::fma(x[i], x[i], lanes[i % 16]);
  for (int step = 8; step > 0; step /= 2) {
    for (int i = 0; i < step; ++i) lanes[i] += lanes[i + step];
  }
  const float inverse = 1.0f / std::sqrt(lanes[0] / static_cast<float>(n) + 1e-5f);
  std::vector<float> expected(n), actual(n);
  for (size_t i = 0; i < n; ++i) expected[i] = x[i] * inverse * 1.0f;
  for (Isa isa : supported_sets()) {
    vector_kernels(isa).rms_norm(x.data(), ones.data(), 1e-5f, n, actual.data());
    expect_same(actual, expected, std::string(name(isa)));
  }
}

TEST(VectorKernels, activations_match_double) {
  for (Isa isa : supported_sets()) {
    const VectorKernels& kernels = vector_kernels(isa);
    for (size_t n : sizes()) {
      const auto gate = random_values(n, 4, 4), up = random_values(n, 5);
      std::vector<double> silu_expected(n), gelu_expected(n), cap_expected(n), sum_expected(n), scale_expected(n);
      for (size_t i = 0; i < n; ++i) {
        silu_expected[i] = silu(gate[i]) * up[i];
        gelu_expected[i] = gelu_tanh(gate[i]) * up[i];
        cap_expected[i] = 3.0 * std::tanh(gate[i] / 3.0);
        sum_expected[i] = static_cast<double>(gate[i]) + up[i];
        scale_expected[i] = 0.37f * static_cast<double>(gate[i]);
      }
      Guarded silu_out(up), gelu_out(up), in_place(gate), capped(gate), sum(gate), scaled(gate);
      kernels.silu_gated(gate.data(), up.data(), n, silu_out.data());
      kernels.gelu_gated(gate.data(), up.data(), n, gelu_out.data());
      kernels.silu_gated(in_place.data(), up.data(), n, in_place.data());
      kernels.softcap(capped.data(), 3.0f, n);
      kernels.add(sum.data(), up.data(), n);
      kernels.scale(scaled.data(), 0.37f, n);
      ASSERT_LT(relative_error(silu_out.values(), silu_expected), 6 * 0x1p-24) << name(isa) << " n " << n;
      ASSERT_LT(relative_error(gelu_out.values(), gelu_expected), 12 * 0x1p-24) << name(isa) << " n " << n;
      ASSERT_LT(relative_error(capped.values(), cap_expected), 6 * 0x1p-24) << name(isa) << " n " << n;
      ASSERT_LE(relative_error(sum.values(), sum_expected), 0x1p-24) << name(isa) << " n " << n;
      ASSERT_LE(relative_error(scaled.values(), scale_expected), 0x1p-24) << name(isa) << " n " << n;
      expect_same(in_place.values(), silu_out.values(), "in place");
    }
  }
}

TEST(VectorKernels, rope_matches_double) {
  for (Isa isa : supported_sets()) {
    const VectorKernels& kernels = vector_kernels(isa);
    for (size_t n = 2; n <= 160; n += 2) {
      const auto head = random_values(n, 6);
      std::vector<float> cosine(n / 2), sine(n / 2);
      std::vector<double> halves(n), neighbours(n);
      for (size_t i = 0; i < n / 2; ++i) {
        cosine[i] = static_cast<float>(std::cos(0.3 + 1.7 * static_cast<double>(i)));
        sine[i] = static_cast<float>(std::sin(0.3 + 1.7 * static_cast<double>(i)));
        const double c = cosine[i], s = sine[i];
        halves[i] = head[i] * c - head[i + n / 2] * s;
        halves[i + n / 2] = head[i] * s + head[i + n / 2] * c;
        neighbours[2 * i] = head[2 * i] * c - head[2 * i + 1] * s;
        neighbours[2 * i + 1] = head[2 * i] * s + head[2 * i + 1] * c;
      }
      Guarded a(head), b(head);
      kernels.rope_halves(a.data(), cosine.data(), sine.data(), n);
      kernels.rope_neighbours(b.data(), cosine.data(), sine.data(), n);
      ASSERT_LT(relative_error(a.values(), halves), 2 * 0x1p-24) << name(isa) << " n " << n;
      ASSERT_LT(relative_error(b.values(), neighbours), 2 * 0x1p-24) << name(isa) << " n " << n;
    }
  }
}

// silu(x) with up = 1 is x / (1 + e^-x): where e^-x is far above 1 its error is that of the exponential.
TEST(VectorKernels, exponential_and_tanh_are_exact_to_a_few_ulps) {
  const size_t n = 1 << 16;
  std::vector<float> x(n), ones(n, 1.0f), out(n);
  for (Isa isa : supported_sets()) {
    for (size_t i = 0; i < n; ++i) x[i] = -17.5f - 69.0f * static_cast<float>(i) / static_cast<float>(n);
    vector_kernels(isa).silu_gated(x.data(), ones.data(), n, out.data());
    double worst = 0;
    for (size_t i = 0; i < n; ++i) worst = std::max(worst, ulps(out[i], silu(x[i])));
    EXPECT_LT(worst, 3.0) << name(isa);

    for (size_t i = 0; i < n; ++i) x[i] = -10.0f + 20.0f * (static_cast<float>(i) + 0.5f) / static_cast<float>(n);
    out = x;
    vector_kernels(isa).softcap(out.data(), 1.0f, n);
    worst = 0;
    for (size_t i = 0; i < n; ++i) worst = std::max(worst, ulps(out[i], std::tanh(static_cast<double>(x[i]))));
    EXPECT_LT(worst, 3.0) << name(isa);
  }
}

TEST(VectorKernels, extreme_values_behave) {
  const std::vector<float> x = {0.0f,      -0.0f, 1e-40f, -1e-40f, 1e30f,   -1e30f,
                                kInfinity, kNan,  88.5f,  -88.5f,  -104.0f, 3e38f};
  const std::vector<float> ones(x.size(), 1.0f);
  for (Isa isa : supported_sets()) {
    const VectorKernels& kernels = vector_kernels(isa);
    std::vector<float> silu_out(x.size()), gelu_out(x.size()), capped = x;
    kernels.silu_gated(x.data(), ones.data(), x.size(), silu_out.data());
    kernels.gelu_gated(x.data(), ones.data(), x.size(), gelu_out.data());
    kernels.softcap(capped.data(), 30.0f, x.size());
    for (const auto* out : {&silu_out, &gelu_out}) {
      EXPECT_EQ((*out)[0], 0.0f);
      EXPECT_EQ((*out)[4], 1e30f);
      EXPECT_EQ((*out)[5], 0.0f);
      EXPECT_EQ((*out)[6], kInfinity);
      EXPECT_TRUE(std::isnan((*out)[7]));
      EXPECT_EQ((*out)[8], 88.5f);
      EXPECT_EQ((*out)[11], 3e38f);
    }
    EXPECT_EQ(capped[4], 30.0f);
    EXPECT_EQ(capped[5], -30.0f);
    EXPECT_EQ(capped[6], 30.0f);
    EXPECT_TRUE(std::isnan(capped[7]));
    EXPECT_NEAR(capped[2], 1e-40, 30 * 0x1p-149);  // x / 30 has few digits left
  }
}

TEST(VectorKernels, instruction_sets_agree_bit_for_bit) {
  const float special[] = {0.0f,    -0.0f,          kInfinity,     -kInfinity, kNan,    1e-45f,
                           -1e-40f, 1.1754944e-38f, 3.4028235e38f, -3e38f,     88.72f,  88.73f,
                           -87.4f,  -95.0f,         -103.9f,       0.625f,     -0.625f, 1e-20f};
  const VectorKernels& reference = scalar_vector_kernels();
  for (Isa isa : supported_sets()) {
    const VectorKernels& kernels = vector_kernels(isa);
    for (size_t n : sizes()) {
      for (int kind = 0; kind < 4; ++kind) {
        auto a = random_values(n, static_cast<uint32_t>(n), kind == 1 ? 40.0f : 2.0f);
        auto b = random_values(n, static_cast<uint32_t>(n) + 1), c = random_values(n, static_cast<uint32_t>(n) + 2);
        std::mt19937 random(static_cast<uint32_t>(n));
        if (kind == 2) {  // one special value, so that a sum over the row isn't NaN every time
          a[random() % n] = special[random() % std::size(special)];
        } else if (kind == 3) {
          for (float& v : a) v = random() % 2 ? v : special[random() % std::size(special)];
          for (float& v : b) v = random() % 4 ? v : special[random() % std::size(special)];
        }
        const std::string what = std::string(name(isa)) + " n " + std::to_string(n) + " kind " + std::to_string(kind);
        const auto compare = [&](auto call) {
          std::vector<float> expected = a, actual = a;
          call(reference, expected);
          call(kernels, actual);
          expect_same(actual, expected, what);
        };
        const size_t even = n / 2 * 2;
        compare([&](const VectorKernels& k, auto& out) { k.rms_norm(a.data(), b.data(), 1e-5f, n, out.data()); });
        compare([&](const VectorKernels& k, auto& out) {
          k.add_rms_norm(a.data(), b.data(), 1e-5f, c.data(), n, out.data());
        });
        compare([&](const VectorKernels& k, auto& out) { k.silu_gated(a.data(), b.data(), n, out.data()); });
        compare([&](const VectorKernels& k, auto& out) { k.gelu_gated(a.data(), b.data(), n, out.data()); });
        compare([&](const VectorKernels& k, auto& out) { k.softcap(out.data(), 7.0f, n); });
        compare([&](const VectorKernels& k, auto& out) { k.add(out.data(), b.data(), n); });
        compare([&](const VectorKernels& k, auto& out) { k.scale(out.data(), 1.7f, n); });
        compare([&](const VectorKernels& k, auto& out) { k.rope_halves(out.data(), b.data(), c.data(), even); });
        compare([&](const VectorKernels& k, auto& out) { k.rope_neighbours(out.data(), b.data(), c.data(), even); });
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace gale::exec
