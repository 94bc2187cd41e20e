#include "conf/reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace conf {

enum class Color { kRed, kGreen };

struct Part {
  std::string name;
  uint32_t weight = 1;
};

struct Machine {
  std::string name;
  int64_t offset = 0;
  uint16_t port = 1;
  double ratio = 0.5;
  bool on = false;
  Duration wait = std::chrono::seconds(1);
  uint64_t bytes = 1;
  std::optional<uint64_t> cap;
  int64_t micro_usd = 0;
  Color color = Color::kRed;
  std::vector<Part> parts;
  std::map<std::string, uint32_t> counts;
  std::vector<std::string> tags;
};

constexpr conf::Word<Color> kColors[] = {{"red", Color::kRed}, {"green", Color::kGreen}};

static void Bind(Object& o, Part& part) {
  o.Required("name", part.name, NotEmpty());
  o.Optional("weight", part.weight, Range{1U, 9U});
}

static void Bind(Object& o, Machine& m) {
  o.Required("name", m.name);
  o.Optional("offset", m.offset);
  o.Optional("port", m.port);
  o.Optional("ratio", m.ratio, Range{0.0, 1.0});
  o.Optional("on", m.on);
  o.Optional("wait", m.wait, Positive());
  o.Optional("bytes", Size(m.bytes), AtLeast{uint64_t{1}});
  o.Optional("cap", Size(m.cap), AtLeast{uint64_t{10}});
  o.Optional("cost", Money(m.micro_usd));
  o.Optional("color", Choice(m.color, "color", kColors));
  o.Optional("parts", m.parts);
  o.Optional("counts", m.counts);
  o.Optional("tags", OneOrMany(m.tags), NotEmpty());
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Result {
  Machine machine;
  std::vector<std::string> problems;
  std::vector<std::string> defaulted;
};

Result ReadMachine(std::string_view text) {
  const Sources none;
  Document document(text, "m.yaml", none);
  Result out;
  Read(document.root(), out.machine);
  for (const Problem& problem : document.TakeProblems()) out.problems.push_back(ToString(problem));
  out.defaulted = document.TakeDefaulted();
  return out;
}

TEST(Reader, ReadsEveryKindOfField) {
  const Result r = ReadMachine(R"(
name: 123            # a text all the same
offset: -7
port: 65535
ratio: 1e-1
on: true
wait: 250ms
bytes: 64MiB
cap: 4096
cost: 0.15
color: green
parts: [{name: a}, {name: b, weight: 9}]
counts: {x: 1, y/z: 2}
tags: solo
)");
  EXPECT_THAT(r.problems, IsEmpty());
  EXPECT_EQ(r.machine.name, "123");
  EXPECT_EQ(r.machine.offset, -7);
  EXPECT_EQ(r.machine.port, 65535);
  EXPECT_DOUBLE_EQ(r.machine.ratio, 0.1);
  EXPECT_TRUE(r.machine.on);
  EXPECT_EQ(r.machine.wait, std::chrono::milliseconds(250));
  EXPECT_EQ(r.machine.bytes, 64ULL << 20);
  EXPECT_EQ(r.machine.cap, 4096U);
  EXPECT_EQ(r.machine.micro_usd, 150'000);
  EXPECT_EQ(r.machine.color, Color::kGreen);
  ASSERT_EQ(r.machine.parts.size(), 2U);
  EXPECT_EQ(r.machine.parts[0].weight, 1U);
  EXPECT_EQ(r.machine.parts[1].weight, 9U);
  EXPECT_EQ(r.machine.counts.at("y/z"), 2U);
  EXPECT_THAT(r.machine.tags, ElementsAre("solo"));
  EXPECT_THAT(r.defaulted, ElementsAre("/parts/0/weight"));
}

TEST(Reader, ReadsJson) {
  const Result r =
      ReadMachine(R"({"name": "x", "port": 80, "parts": [{"name": "a", "weight": 2}], "tags": ["p", "q"]})");
  EXPECT_THAT(r.problems, IsEmpty());
  EXPECT_EQ(r.machine.port, 80);
  EXPECT_THAT(r.machine.tags, ElementsAre("p", "q"));
}

TEST(Reader, EachProblemSaysWhereWhatAndWhatWouldBeRight) {
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"{}", "m.yaml:/name (line 1): is required"},
      {"", "m.yaml (line 1): expected a mapping, found nothing"},
      {"[1]", "m.yaml (line 1): expected a mapping, found a list"},
      {"text", "m.yaml (line 1): expected a mapping, found \"text\""},
      {"name: x\n<<: {port: 1}",
       "m.yaml:/<< (line 2): unknown key \"<<\": mappings are not merged; write the keys out"},
      {"name: x\ncolor: \"gren\"", R"(m.yaml:/color (line 2): unknown color "gren", did you mean "green"?)"},
      {"name: x\nprot: 1", R"(m.yaml:/prot (line 2): unknown key "prot", did you mean "port"?)"},
      {"name: x\nzzzzzzzz: 1",
       "m.yaml:/zzzzzzzz (line 2): unknown key \"zzzzzzzz\", expected one of name, offset, port, ratio, on, "
       "wait, bytes, "
       "cap, cost, color, parts, counts, tags"},
      {"name: x\nname: y", "m.yaml:/name (line 2): key \"name\" is given twice"},
      {"name: [x]", "m.yaml:/name (line 1): expected a text, found a list"},
      {"name:", "m.yaml:/name (line 1): has no value; give one or remove the key"},
      {"name: ~", "m.yaml:/name (line 1): has no value; give one or remove the key"},
      {R"(name: "a\nb")", "m.yaml:/name (line 1): must not contain line breaks or other control characters"},
      {"name: x\noffset: 1.5", "m.yaml:/offset (line 2): expected a whole number, found \"1.5\""},
      {"name: x\noffset: \"1\"",
       "m.yaml:/offset (line 2): expected a whole number, found the text \"1\" in quotes"},
      {"name: x\noffset: 0x10", "m.yaml:/offset (line 2): expected a whole number, found \"0x10\""},
      {"name: x\noffset: 010", "m.yaml:/offset (line 2): expected a whole number, found \"010\""},
      {"name: x\noffset: 9223372036854775808",
       "m.yaml:/offset (line 2): 9223372036854775808 is too large, expected at most 9223372036854775807"},
      {"name: x\nport: 65536", "m.yaml:/port (line 2): 65536 is too large, expected at most 65535"},
      {"name: x\nport: -1", "m.yaml:/port (line 2): expected a whole number of at least 0, found \"-1\""},
      {"name: x\nratio: .nan", "m.yaml:/ratio (line 2): expected a number, found \".nan\""},
      {"name: x\nratio: inf", "m.yaml:/ratio (line 2): expected a number, found \"inf\""},
      {"name: x\nratio: 1.5", "m.yaml:/ratio (line 2): must be between 0 and 1"},
      {"name: x\non: yes", "m.yaml:/on (line 2): expected true or false, found \"yes\""},
      {"name: x\nwait: 5",
       "m.yaml:/wait (line 2): expected a duration with a unit, such as 500ms, 30s or 5m, found \"5\""},
      {"name: x\nwait: 1000000000000000000s",
       "m.yaml:/wait (line 2): 1000000000000000000s is too large, expected at most 106000d"},
      {"name: x\nbytes: 100000000TiB",
       "m.yaml:/bytes (line 2): 100000000TiB is too large, expected at most 8388607TiB"},
      {"name: x\ncost: 1000000000000000000",
       "m.yaml:/cost (line 2): 1000000000000000000 is too large, expected at most 9000000000000"},
      {"name: x\noffset: -9223372036854775809",
       "m.yaml:/offset (line 2): -9223372036854775809 is too small, expected at least -9223372036854775808"},
      {"name: x\nwait: 0s", "m.yaml:/wait (line 2): must be longer than 0"},
      {"name: x\nbytes: 1.5MiB",
       "m.yaml:/bytes (line 2): expected a size in bytes, such as 1048576, 64KiB or 1GiB, found \"1.5MiB\""},
      {"name: x\nbytes: 0", "m.yaml:/bytes (line 2): must be at least 1"},
      {"name: x\ncap: 9", "m.yaml:/cap (line 2): must be at least 10"},
      {"name: x\ncost: -1",
       "m.yaml:/cost (line 2): expected an amount in USD of at least 0 with at most six decimals, such as "
       "0.15, found \"-1\""},
      {"name: x\ncolor: gren", R"(m.yaml:/color (line 2): unknown color "gren", did you mean "green"?)"},
      {"name: x\ncolor: magenta",
       R"(m.yaml:/color (line 2): unknown color "magenta", expected one of red, green)"},
      {"name: x\nparts: {}", "m.yaml:/parts (line 2): expected a list, found a mapping"},
      {"name: x\nparts:\n  - name: a\n  - weight: 10\n    name: b",
       "m.yaml:/parts/1/weight (line 4): must be between 1 and 9"},
      {"name: x\nparts: [7]", "m.yaml:/parts/0 (line 2): expected a mapping, found \"7\""},
      {"name: x\ncounts: {a/b~c: no}",
       "m.yaml:/counts/a~1b~0c (line 2): expected a whole number of at least 0, found \"no\""},
      {"name: x\ntags: []", "m.yaml:/tags (line 2): must not be empty"},
  };
  for (const auto& [text, problem] : kCases) {
    EXPECT_THAT(ReadMachine(text).problems, ElementsAre(problem)) << text;
  }
}

TEST(Reader, AMessageSaysWhereAKeyAtTheWrongLevelBelongs) {
  constexpr std::string_view kKeys[] = {
      "server.listen", "models[].retries.max", "models[].retries", "tags[]", "a.level", "b.level"};
  const auto problem = [&](std::string_view text) {
    const Sources none;
    Document document(text, "m.yaml", none);
    document.KnowKeys(kKeys);
    Machine machine;
    Read(document.root(), machine);
    return ToString(document.TakeProblems().at(0));
  };
  EXPECT_EQ(problem("name: x\nlisten: 1"),
            R"(m.yaml:/listen (line 2): unknown key "listen", did you mean server.listen?)");
  EXPECT_EQ(problem("name: x\nretry: 1"),
            R"(m.yaml:/retry (line 2): unknown key "retry", did you mean models[].retries?)");
  EXPECT_NE(problem("name: x\nlevel: 1").find("expected one of"), std::string::npos)
      << "it may belong anywhere";
  EXPECT_EQ(problem("name: x\nprot: 1"), R"(m.yaml:/prot (line 2): unknown key "prot", did you mean "port"?)")
      << "the same level first";
}

TEST(Reader, ReportsEveryProblemAndKeepsTheDefaultsOfTheFieldsThatHaveOne) {
  const Result r = ReadMachine("port: x\nratio: 2\nparts: [{weight: 0}]\ncolr: red\n");
  EXPECT_THAT(r.problems,
              ElementsAre("m.yaml:/name (line 1): is required",
                          "m.yaml:/port (line 1): expected a whole number of at least 0, found \"x\"",
                          "m.yaml:/ratio (line 2): must be between 0 and 1",
                          "m.yaml:/parts/0/name (line 3): is required",
                          "m.yaml:/parts/0/weight (line 3): must be between 1 and 9",
                          R"(m.yaml:/colr (line 4): unknown key "colr", did you mean "color"?)"));
  EXPECT_EQ(r.machine.port, 1);
}

TEST(Reader, ReadsMoneyExactly) {
  const std::pair<std::string_view, std::optional<int64_t>> kCases[] = {
      {"0", 0},
      {"0.1", 100'000},
      {"0.15", 150'000},
      {"0.000001", 1},
      {"2.50", 2'500'000},
      {"4503599627370.497", 4'503'599'627'370'497'000},
      {"9223372036853.999999", 9'223'372'036'853'999'999},
      {"9223372036854", std::nullopt},
      {"0.0000001", std::nullopt},
      {"-1", std::nullopt},
      {"+1", std::nullopt},
      {"1e3", std::nullopt},
      {".5", std::nullopt},
      {"1.", std::nullopt},
      {"", std::nullopt},
      {"1,5", std::nullopt},
      {"99999999999999999999", std::nullopt},
  };
  for (const auto& [text, micro_usd] : kCases) {
    EXPECT_EQ(ParseMicroUsd(text), micro_usd) << text;
    if (micro_usd) EXPECT_EQ(ParseMicroUsd(FormatMicroUsd(*micro_usd)), micro_usd) << text;
  }
  EXPECT_EQ(FormatMicroUsd(2'500'000), "2.5");
  EXPECT_EQ(FormatMicroUsd(10'000'000), "10");
}

TEST(Reader, ReadsSizesWithoutOverflow) {
  const std::pair<std::string_view, std::optional<uint64_t>> kCases[] = {
      {"0", 0},
      {"17", 17},
      {"1B", 1},
      {"64KiB", 65536},
      {"1GiB", 1ULL << 30},
      {"2TiB", 2ULL << 40},
      {"5MB", 5'000'000},
      {"9223372036854775807", 9223372036854775807ULL},
      {"8388608TiB", std::nullopt},
      {"18446744073709551616", std::nullopt},
      {"1 KiB", std::nullopt},
      {"1kib", std::nullopt},
      {"-1", std::nullopt},
      {"KiB", std::nullopt},
      {"", std::nullopt},
  };
  for (const auto& [text, bytes] : kCases) EXPECT_EQ(ParseSize(text), bytes) << text;
}

TEST(Writer, WritesWhatReadsBackAsTheSameStruct) {
  Result r = ReadMachine(
      "{name: x, cap: 4KiB, cost: 0.000001, wait: 1500ms, color: green, counts: {a: 1}, tags: [p]}");
  nlohmann::json written;
  Writer writer(written);
  Write(writer, r.machine);
  Prune(written);
  EXPECT_EQ(
      written.dump(),
      R"({"bytes":1,"cap":4096,"color":"green","cost":"0.000001","counts":{"a":1},"name":"x","offset":0,"on":false,)"
      R"("port":1,"ratio":0.5,"tags":["p"],"wait":"1500ms"})");
  const Result again = ReadMachine(written.dump());
  EXPECT_THAT(again.problems, IsEmpty());
  EXPECT_EQ(again.machine.micro_usd, 1);
  EXPECT_EQ(again.machine.cap, 4096U);
}

}  // namespace
}  // namespace conf
