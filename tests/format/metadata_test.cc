// Typed access to settings: conversions between integer kinds, ranges, absent keys, and errors that name the key.
#include "format/metadata.h"

#include <gtest/gtest.h>

#include <limits>

namespace gale::format {
namespace {

using Texts = std::vector<std::string_view>;

Metadata sample() {
  Metadata m;
  const auto add = [&](std::string_view key, Value value) { EXPECT_TRUE(m.add(key, std::move(value)).ok()); };
  add("u", uint64_t{7});
  add("big", std::numeric_limits<uint64_t>::max());
  add("i", int64_t{-7});
  add("i+", int64_t{9});
  add("d", 0.5);
  add("b", true);
  add("s", std::string_view("llama"));
  add("us", std::vector<uint64_t>{1, 2});
  add("bigs", std::vector<uint64_t>{1, std::numeric_limits<uint64_t>::max()});
  add("is", std::vector<int64_t>{-1, 2});
  add("ds", std::vector<double>{0.5});
  add("fs", std::vector<float>{0.25f, 3});
  add("bs", std::vector<uint8_t>{1, 0});
  add("ss", Texts{"a", "b"});
  return m;
}

TEST(Metadata, KeysKeepTheirOrder) {
  const Metadata m = sample();
  ASSERT_EQ(m.keys().size(), 14u);
  EXPECT_EQ(m.keys()[0], "u");
  EXPECT_EQ(m.keys()[13], "ss");
}

TEST(Metadata, SecondValueForAKeyIsAnError) {
  Metadata m = sample();
  const Status status = m.add("u", uint64_t{8});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("'u'"), std::string::npos);
  EXPECT_EQ(**m.unsigned_integer("u"), 7u);
  EXPECT_EQ(m.keys().size(), 14u);
}

TEST(Metadata, AbsentKeysAreNotErrors) {
  const Metadata m = sample();
  EXPECT_EQ(m.find("no"), nullptr);
  EXPECT_FALSE(m.unsigned_integer("no")->has_value());
  EXPECT_FALSE(m.integer("no")->has_value());
  EXPECT_FALSE(m.number("no")->has_value());
  EXPECT_FALSE(m.boolean("no")->has_value());
  EXPECT_FALSE(m.text("no")->has_value());
  EXPECT_FALSE(m.integers("no")->has_value());
  EXPECT_EQ(*m.texts("no"), nullptr);
  EXPECT_EQ(*m.floats("no"), nullptr);
}

TEST(Metadata, IntegersConvertWhenTheyFit) {
  const Metadata m = sample();
  EXPECT_EQ(**m.unsigned_integer("u"), 7u);
  EXPECT_EQ(**m.unsigned_integer("i+"), 9u);
  EXPECT_EQ(**m.integer("u"), 7);
  EXPECT_EQ(**m.integer("i"), -7);
  EXPECT_EQ(**m.number("u"), 7.0);
  EXPECT_EQ(**m.number("i"), -7.0);
  EXPECT_EQ(**m.number("d"), 0.5);
  EXPECT_FALSE(m.unsigned_integer("i").ok());
  EXPECT_FALSE(m.integer("big").ok());
  EXPECT_EQ(**m.unsigned_integer("big"), std::numeric_limits<uint64_t>::max());
}

TEST(Metadata, WrongTypesAreErrorsThatNameKeyAndTypes) {
  const Metadata m = sample();
  for (const char* key : {"d", "b", "s", "us", "ss"}) {
    EXPECT_FALSE(m.unsigned_integer(key).ok()) << key;
    EXPECT_FALSE(m.integer(key).ok()) << key;
  }
  for (const char* key : {"b", "s", "fs"}) EXPECT_FALSE(m.number(key).ok()) << key;
  for (const char* key : {"u", "s", "bs"}) EXPECT_FALSE(m.boolean(key).ok()) << key;
  for (const char* key : {"u", "b", "ss"}) EXPECT_FALSE(m.text(key).ok()) << key;
  for (const char* key : {"s", "us", "fs"}) EXPECT_FALSE(m.texts(key).ok()) << key;
  for (const char* key : {"d", "ds", "us", "ss"}) EXPECT_FALSE(m.floats(key).ok()) << key;
  for (const char* key : {"d", "s", "fs", "ds", "ss", "big", "bigs"}) EXPECT_FALSE(m.integers(key).ok()) << key;
  const std::string message = m.unsigned_integer("s").error().message;
  for (const char* part : {"'s'", "expected an integer", "found a string", "\"llama\""}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST(Metadata, ArraysAndSingleValues) {
  const Metadata m = sample();
  EXPECT_TRUE(**m.boolean("b"));
  EXPECT_EQ(**m.text("s"), "llama");
  EXPECT_EQ(**m.texts("ss"), (Texts{"a", "b"}));
  EXPECT_EQ(**m.floats("fs"), (std::vector<float>{0.25f, 3}));
  EXPECT_EQ(**m.integers("us"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(**m.integers("is"), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(**m.integers("bs"), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(**m.integers("u"), (std::vector<int64_t>{7}));
  EXPECT_EQ(**m.integers("i"), (std::vector<int64_t>{-7}));
  EXPECT_EQ(**m.integers("b"), (std::vector<int64_t>{1}));
}

TEST(Describe, OneLineForEachKind) {
  EXPECT_EQ(describe(uint64_t{49152}), "49152");
  EXPECT_EQ(describe(int64_t{-3}), "-3");
  EXPECT_EQ(describe(0.5), "0.5");
  EXPECT_EQ(describe(static_cast<double>(1e-5f)), "1e-05");
  EXPECT_EQ(describe(0.1), "0.1");
  EXPECT_EQ(describe(true), "true");
  EXPECT_EQ(describe(std::string_view("llama")), "\"llama\"");
  EXPECT_EQ(describe(Texts(49152)), "[49152 strings]");
  EXPECT_EQ(describe(Texts{}), "[0 strings]");
  EXPECT_EQ(describe(Texts{"en", "de"}), "[\"en\", \"de\"]");
  EXPECT_EQ(describe(Texts{std::string_view("a long tag"), "and another"}, 20), "[2 strings]");
  EXPECT_EQ(describe(std::vector<int64_t>{11, 11, 10, 0}), "[11, 11, 10, 0]");
  EXPECT_EQ(describe(std::vector<int64_t>(9)), "[9 integers]");
  EXPECT_EQ(describe(std::vector<uint64_t>(4, std::numeric_limits<uint64_t>::max()), 20), "[4 integers]");
  EXPECT_EQ(describe(std::vector<float>(262144)), "[262144 numbers]");
  EXPECT_EQ(describe(std::vector<float>{}), "[0 numbers]");
  EXPECT_EQ(describe(std::vector<uint8_t>{1, 0}), "[true, false]");
}

TEST(Describe, TextIsCutAtACharacterAndStaysOnOneLine) {
  EXPECT_EQ(describe(std::string_view("a\nb\t\"\\\x01"), 60), "\"a\\nb\\t\\\"\\\\\\x01\"");
  EXPECT_EQ(describe(std::string_view("abcdef"), 4), "\"abcd\"...");
  EXPECT_EQ(describe(std::string_view("ab\xC3\xA9z"), 3), "\"ab\"...");
  EXPECT_EQ(describe(std::string_view("ab\xC3\xA9"), 4), "\"ab\xC3\xA9\"");
}

}  // namespace
}  // namespace gale::format
