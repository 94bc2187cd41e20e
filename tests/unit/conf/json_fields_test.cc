// One list of fields serves YAML, JSON both ways, and the schema.
#include <gtest/gtest.h>

#include "conf/document.h"
#include "conf/json_fields.h"
#include "conf/json_reader.h"
#include "conf/reader.h"

namespace conf {
namespace {

enum class Mood : uint8_t { kCalm, kWild };
constexpr Word<Mood> kMoods[] = {{"calm", Mood::kCalm}, {"wild", Mood::kWild}};
Words<Mood> WordsOf(Mood) {
  return kMoods;
}

struct Tail {
  int64_t length = 3;
  bool operator==(const Tail&) const = default;
};
template <class O>
constexpr void Bind(O& o, Tail& t) {
  o.Optional("length", t.length);
}

struct Cat {
  std::string name{};
  Mood mood = Mood::kCalm;
  std::vector<std::string> foods{};
  std::optional<Duration> sleeps{};
  Tail tail{};
  bool operator==(const Cat&) const = default;
};
template <class O>
constexpr void Bind(O& o, Cat& t) {
  o.Required("name", t.name);
  o.Optional("mood", t.mood);
  o.Optional("foods", t.foods);
  o.Optional("sleeps", t.sleeps);
  o.Inline(t.tail);
}

std::string Written(const Cat& cat) {
  std::string out;
  JsonWriter writer(out);
  WriteJson(writer, cat);
  return out;
}

const Cat kTom = {"Tom", Mood::kWild, {"fish"}, std::chrono::hours(16), {.length = 7}};

TEST(Fields, AreWrittenInTheirOrderWithoutWhatHasItsDefault) {
  EXPECT_EQ(Written(kTom), R"({"name":"Tom","mood":"wild","foods":["fish"],"sleeps":"57600s","length":7})");
  EXPECT_EQ(Written({.name = "Kit"}), R"({"name":"Kit"})");
}

TEST(Fields, AreReadFromJsonAsTheyWereWritten) {
  JsonFaults faults;
  Cat cat;
  ReadJson(*ParseJson(Written(kTom), faults), cat, faults);
  EXPECT_EQ(faults.count(), 0u);
  EXPECT_EQ(cat, kTom);
}

TEST(Fields, AreReadFromYaml) {
  const Sources sources;
  Document document("name: Tom\nmood: wild\nfoods: [fish]\nsleeps: 16h\nlength: 7\n", "cat.yaml", sources);
  Cat cat;
  Read(document.root(), cat);
  EXPECT_TRUE(document.TakeProblems().empty());
  EXPECT_EQ(cat, kTom);
}

TEST(Fields, ThatDoNotFitAreNamed) {
  JsonFaults faults;
  Cat cat;
  ReadJson(*ParseJson(R"({"mood":"mild","lenght":1})", faults), cat, faults);
  ASSERT_EQ(faults.count(), 3u);
  EXPECT_EQ(faults.faults()[0].message, "\"name\" is required");
  EXPECT_EQ(faults.faults()[1].pointer, "/mood");
  EXPECT_NE(faults.faults()[1].message.find("unknown word \"mild\""), std::string::npos);
  EXPECT_NE(faults.faults()[2].message.find("length"), std::string::npos);
}

TEST(Fields, AnEmptyOptionalThatIsRequiredIsNull) {
  std::string out;
  JsonWriter writer(out);
  WriteJson(writer, std::vector<std::optional<int>>{1, std::nullopt});
  EXPECT_EQ(out, "[1,null]");
}

}  // namespace
}  // namespace conf
