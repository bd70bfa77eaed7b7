// The formulas of the reference executor against values computed by hand, above all those that no oracle model uses.
#include "exec/reference/reference_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace gale::exec::reference {
namespace {

TEST(ReferenceMath, NormsAndActivations) {
  const float w[] = {1, 2};
  const Vector y = rms(Vector{3, 4}, w, 0.5f);  // mean of squares 12.5
  EXPECT_NEAR(y[0], 3 / std::sqrt(13.0), 1e-15);
  EXPECT_NEAR(y[1], 8 / std::sqrt(13.0), 1e-15);
  EXPECT_NEAR(activate(model::Activation::silu, 1), 0.7310585786300049, 1e-15);
  EXPECT_NEAR(activate(model::Activation::silu, -800), 0, 1e-300);
  EXPECT_NEAR(activate(model::Activation::gelu_tanh, 1), 0.8411919906082768, 1e-12);
  EXPECT_EQ(activate(model::Activation::gelu_tanh, 100), 100);
  EXPECT_EQ(activate(model::Activation::gelu_tanh, -100), 0);
}

TEST(ReferenceMath, Softcap) {
  EXPECT_EQ(softcap(123, 0), 123);
  EXPECT_NEAR(softcap(3, 2), 2 * std::tanh(1.5), 1e-15);
  EXPECT_NEAR(softcap(-1e9, 30), -30, 1e-12);
}

TEST(ReferenceMath, RotationOfBothKindsOfPairs) {
  // 4 of 6 elements rotate; angles at position 3: 3 and 3 * 100^(-1/2) = 0.3; divided by 2 and the divisors 1 and 4.
  model::Rope rope{.pairs = model::Rope::Pairs::neighbours, .dimensions = 4, .base = 100, .factor = 2};
  const float divisors[] = {1, 4};
  const double first = 3.0 / 2, second = 0.3 / 2 / 4;
  const Vector x{1, 2, 3, 4, 5, 6};
  Vector neighbours = x;
  Rotation(rope, divisors, 3).apply(neighbours);
  const Vector expected{1 * std::cos(first) - 2 * std::sin(first),
                        1 * std::sin(first) + 2 * std::cos(first),
                        3 * std::cos(second) - 4 * std::sin(second),
                        3 * std::sin(second) + 4 * std::cos(second),
                        5,
                        6};
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(neighbours[i], expected[i], 1e-14) << i;

  rope.pairs = model::Rope::Pairs::halves;  // (0, 2) and (1, 3)
  Vector halves = x;
  Rotation(rope, divisors, 3).apply(halves);
  const Vector by_halves{1 * std::cos(first) - 3 * std::sin(first),
                         2 * std::cos(second) - 4 * std::sin(second),
                         1 * std::sin(first) + 3 * std::cos(first),
                         2 * std::sin(second) + 4 * std::cos(second),
                         5,
                         6};
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(halves[i], by_halves[i], 1e-14) << i;
}

TEST(ReferenceMath, AttentionWithSoftcapWindowAndSharedKeys) {
  // Two query heads share one key head of size 1; values have size 2. Scores before the cap: 2 * q * k.
  model::AttentionStep step;
  step.heads = 2, step.kv_heads = 1, step.head_size = 1, step.value_size = 2;
  step.scale = 2, step.softcap = 5, step.window = 2;
  const std::vector<float> keys{9, 1, -1}, values{100, 100, 1, 2, 3, 4};
  Vector out(4);
  attend(step, Vector{1, -3}, keys, values, 2, out);  // position 2 sees 1 and 2, not 0
  for (size_t head = 0; head < 2; ++head) {
    const double q = head == 0 ? 1 : -3;
    const double a = std::exp(5 * std::tanh(2 * q * 1 / 5)), b = std::exp(5 * std::tanh(2 * q * -1 / 5));
    EXPECT_NEAR(out[2 * head], (a * 1 + b * 3) / (a + b), 1e-14);
    EXPECT_NEAR(out[2 * head + 1], (a * 2 + b * 4) / (a + b), 1e-14);
  }
  attend(step, Vector{1, -3}, keys, values, 0, out);  // alone: its own value, whatever the score
  EXPECT_EQ(out, (Vector{100, 100, 100, 100}));
}

}  // namespace
}  // namespace gale::exec::reference
