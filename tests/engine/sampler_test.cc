// The sampler: seeds, filters that leave nothing, repeat penalty, and the distribution against probabilities by hand.
#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

namespace gale::engine {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplingOptions hot(std::optional<uint64_t> seed = 7) {
  SamplingOptions options;
  options.temperature = 1;
  options.seed = seed;
  return options;
}

int32_t one(const SamplingOptions& options, const std::vector<float>& logits,
            const std::vector<int32_t>& history = {}) {
  Sampler sampler(options);
  const auto token = sampler.sample(logits, history);
  EXPECT_TRUE(token.ok()) << token.error().message;
  return token.ok() ? *token : -1;
}

std::vector<int32_t> many(const SamplingOptions& options, const std::vector<float>& logits, int count) {
  Sampler sampler(options);
  std::vector<int32_t> out;
  for (int i = 0; i < count; ++i) {
    const auto token = sampler.sample(logits, {});
    EXPECT_TRUE(token.ok()) << token.error().message;
    out.push_back(token.ok() ? *token : -1);
  }
  return out;
}

TEST(Sampler, SeedDecides) {
  const std::vector<float> flat(1000, 0.f);
  EXPECT_EQ(many(hot(7), flat, 20), many(hot(7), flat, 20));
  EXPECT_NE(many(hot(7), flat, 20), many(hot(8), flat, 20));
  EXPECT_NE(many(hot(std::nullopt), flat, 20), many(hot(std::nullopt), flat, 20));
}

// The stream of a seed is part of the contract: the same answer on every machine and in later versions.
TEST(Sampler, SeedGivesTheSameOnEveryMachine) {
  const std::vector<float> flat(1000, 0.f);
  // Top 53 bits of mt19937_64(5489): 14514284786278117030, 4620546740167642908, 13109570281517897720, over 2^64.
  EXPECT_EQ(many(hot(5489), flat, 3), (std::vector<int32_t>{786, 250, 710}));
}

TEST(Sampler, GreedyTakesTheFirstOfTheBest) {
  EXPECT_EQ(one({}, {1, 3, 2, 3}), 1);
  EXPECT_EQ(one({}, {-5, -3, -4}), 1);
  EXPECT_EQ(argmax(std::vector<float>{}), -1);
}

TEST(Sampler, NanAndInfinityNeverWin) {
  for (const float temperature : {0.f, 1.f}) {
    SamplingOptions options = hot();
    options.temperature = temperature;
    EXPECT_EQ(one(options, {kNan, -3, kNan, -kInf, kInf}), 1);
    EXPECT_EQ(one(options, {-kInf, -kInf, 5, -kInf}), 2);  // all banned but one
    for (const std::vector<float>& none : {std::vector<float>{-kInf, -kInf}, {kNan, kNan}, {kNan, -kInf}, {}}) {
      Sampler sampler(options);
      const auto token = sampler.sample(none, {});
      ASSERT_FALSE(token.ok());
      EXPECT_NE(token.error().message.find("no token can be chosen"), std::string::npos) << token.error().message;
    }
    options.repeat_penalty = 2;  // another path through the sampler
    Sampler sampler(options);
    EXPECT_FALSE(sampler.sample(std::vector<float>{-kInf, kNan}, std::vector<int32_t>{0, 1}).ok());
    EXPECT_EQ(one(options, {kNan, -kInf, -3}, {0, 1, 2}), 2);
  }
}

TEST(Sampler, TheBestSurvivesEveryFilter) {
  const std::vector<float> logits{1, 2, 3, 2.9f};
  const auto only_best = [&](auto change) {
    SamplingOptions options = hot();
    change(options);
    ASSERT_TRUE(validate(options).ok());
    const auto chosen = many(options, logits, 200);
    EXPECT_EQ(std::set<int32_t>(chosen.begin(), chosen.end()), std::set<int32_t>{2});
  };
  only_best([](SamplingOptions& o) { o.top_p = 0; });
  only_best([](SamplingOptions& o) { o.min_p = 1.5f; });
  only_best([](SamplingOptions& o) { o.top_k = 1; });
  only_best([](SamplingOptions& o) { o.top_k = 1, o.min_p = 1; });
  only_best([](SamplingOptions& o) { o.top_k = 1, o.top_p = 0, o.min_p = 1.5f; });
  only_best([](SamplingOptions& o) { o.temperature = 1e-6f; });
  only_best([](SamplingOptions& o) { o.temperature = std::numeric_limits<float>::denorm_min(); });
}

// logits [2, -2, 1], history [1, 1, 1, 0], penalty 2: [1, -4, 1]. Seen through the probabilities.
TEST(Sampler, RepeatPenaltyDividesOrMultipliesOnce) {
  SamplingOptions options = hot();
  options.repeat_penalty = 2;
  const std::vector<float> logits{2, -2, 1};
  const std::vector<int32_t> history{1, 1, 1, 0};
  Sampler sampler(options);
  std::array<int, 3> count{};
  constexpr int kDraws = 200'000;
  for (int i = 0; i < kDraws; ++i) ++count[static_cast<size_t>(*sampler.sample(logits, history))];
  const double total = std::exp(1.) + std::exp(-4.) + std::exp(1.);
  for (size_t token = 0; token < 3; ++token) {
    const double p = std::exp(token == 1 ? -4. : 1.) / total;
    EXPECT_TRUE(std::abs(count[token] - kDraws * p) < 5 * std::sqrt(kDraws * p * (1 - p)))
        << token << ": " << count[token] << " of " << kDraws * p;
  }
  options.temperature = 0;
  EXPECT_EQ(one(options, {2, -2, 1.5f}, history), 2);  // 1, -4, 1.5
  EXPECT_EQ(one(options, {-1, -1.5f}, {0}), 1);        // -2, -1.5: a negative logit becomes less likely
  EXPECT_EQ(one(options, {2, -2, 1}, history), 0);     // equal logits: the first
  EXPECT_EQ(one(options, {2, 1.5f}, {0, -1, 99}), 1);  // ids out of range are nobody's
}

TEST(Sampler, RepeatWindowIsOfTheLastTokens) {
  SamplingOptions options;
  options.repeat_penalty = 10;
  options.repeat_window = 4;
  std::vector<int32_t> history(100, 0);
  EXPECT_EQ(one(options, {5, 4, 3}, history), 1);
  for (size_t i = 96; i < 100; ++i) history[i] = 1;
  EXPECT_EQ(one(options, {5, 4, 3}, history), 0);  // 0 is out of the window
  history[96] = 0;
  EXPECT_EQ(one(options, {5, 4, 3}, history), 2);
  options.repeat_window = 0;
  EXPECT_EQ(one(options, {5, 4, 3}, history), 0);
  options.repeat_window = UINT32_MAX;
  EXPECT_EQ(one(options, {5, 4, 3}, history), 2);
}

struct Filter {
  const char* name;
  SamplingOptions options;
  std::vector<double> expected;  // probabilities by hand
};

std::vector<Filter> filters() {
  // softmax of these logits is exactly 0.4, 0.3, 0.2, 0.08, 0.02
  const auto with = [](auto change) {
    SamplingOptions options = hot();
    change(options);
    return options;
  };
  std::vector<Filter> out;
  out.push_back({"plain", hot(), {0.4, 0.3, 0.2, 0.08, 0.02}});
  out.push_back({"top_k 3", with([](auto& o) { o.top_k = 3; }), {0.4 / 0.9, 0.3 / 0.9, 0.2 / 0.9, 0, 0}});
  out.push_back({"top_k 99", with([](auto& o) { o.top_k = 99; }), {0.4, 0.3, 0.2, 0.08, 0.02}});
  // The smallest set that reaches 0.75: 0.4 + 0.3 = 0.7 is short of it.
  out.push_back({"top_p 0.75", with([](auto& o) { o.top_p = 0.75f; }), {0.4 / 0.9, 0.3 / 0.9, 0.2 / 0.9, 0, 0}});
  out.push_back({"top_p 0.65", with([](auto& o) { o.top_p = 0.65f; }), {0.4 / 0.7, 0.3 / 0.7, 0, 0, 0}});
  // 0.4 * 0.3 = 0.12
  out.push_back({"min_p 0.3", with([](auto& o) { o.min_p = 0.3f; }), {0.4 / 0.9, 0.3 / 0.9, 0.2 / 0.9, 0, 0}});
  out.push_back(
      {"min_p 0.1", with([](auto& o) { o.min_p = 0.1f; }), {0.4 / 0.98, 0.3 / 0.98, 0.2 / 0.98, 0.08 / 0.98, 0}});
  {  // temperature 0.5 squares the probabilities
    const double total = 0.16 + 0.09 + 0.04 + 0.0064 + 0.0004;
    out.push_back({"temperature 0.5",
                   with([](auto& o) { o.temperature = 0.5f; }),
                   {0.16 / total, 0.09 / total, 0.04 / total, 0.0064 / total, 0.0004 / total}});
  }
  // Filters look at the distribution before temperature: the sets above, then squared.
  out.push_back({"temperature 0.5, top_p 0.75",
                 with([](auto& o) { o.temperature = 0.5f, o.top_p = 0.75f; }),
                 {0.16 / 0.29, 0.09 / 0.29, 0.04 / 0.29, 0, 0}});
  out.push_back({"top_k 4, top_p 0.75 of what top_k left, min_p 0.6",
                 with([](auto& o) { o.top_k = 4, o.top_p = 0.75f, o.min_p = 0.6f; }),
                 {0.4 / 0.7, 0.3 / 0.7, 0, 0, 0}});
  return out;
}

// Chi-square with a bound that a right sampler misses once in a million seeds (4 degrees of freedom: 33.4).
TEST(Sampler, DistributionIsTheOneByHand) {
  std::vector<float> logits;
  for (const double p : {0.4, 0.3, 0.2, 0.08, 0.02}) logits.push_back(static_cast<float>(std::log(p) + 3));
  // In another order of ids, so that ids and ranks differ.
  const std::vector<size_t> place{3, 0, 4, 1, 2};
  std::vector<float> shuffled(5);
  for (size_t i = 0; i < 5; ++i) shuffled[place[i]] = logits[i];
  constexpr int kDraws = 100'000;
  for (const Filter& filter : filters()) {
    for (const uint64_t seed : {1, 2, 3}) {
      SamplingOptions options = filter.options;
      options.seed = seed;
      std::vector<int> count(5);
      for (const int32_t token : many(options, shuffled, kDraws)) ++count.at(static_cast<size_t>(token));
      double chi_square = 0;
      for (size_t i = 0; i < 5; ++i) {
        const double expected = kDraws * filter.expected[i];
        if (expected == 0) {
          EXPECT_EQ(count[place[i]], 0) << filter.name;
        } else {
          chi_square += std::pow(count[place[i]] - expected, 2) / expected;
        }
      }
      EXPECT_TRUE(chi_square < 33.4) << filter.name << ", seed " << seed << ": " << chi_square;
    }
  }
}

TEST(Sampler, OptionsAreChecked) {
  const auto refused = [](auto change) {
    SamplingOptions options;
    change(options);
    return !validate(options).ok();
  };
  EXPECT_TRUE(refused([](auto& o) { o.temperature = -1; }));
  EXPECT_TRUE(refused([](auto& o) { o.temperature = kNan; }));
  EXPECT_TRUE(refused([](auto& o) { o.temperature = kInf; }));
  EXPECT_TRUE(refused([](auto& o) { o.top_p = 1.1f; }));
  EXPECT_TRUE(refused([](auto& o) { o.top_p = -0.1f; }));
  EXPECT_TRUE(refused([](auto& o) { o.top_p = kNan; }));
  EXPECT_TRUE(refused([](auto& o) { o.min_p = -0.1f; }));
  EXPECT_TRUE(refused([](auto& o) { o.min_p = kNan; }));
  EXPECT_TRUE(refused([](auto& o) { o.repeat_penalty = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.repeat_penalty = kNan; }));
  EXPECT_FALSE(refused([](auto&) {}));
}

}  // namespace
}  // namespace gale::engine
