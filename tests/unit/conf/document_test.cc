#include "conf/document.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace conf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Sources kNoSources;

std::vector<std::string> Problems(std::string_view text, ParseLimits limits = {}) {
  Document document(text, "d.yaml", kNoSources, limits);
  std::vector<std::string> out;
  for (const Problem& problem : document.TakeProblems()) out.push_back(ToString(problem));
  return out;
}

TEST(Document, KnowsLineAndPointerOfEachValue) {
  Document document("a:\n  - x\n  - b/c: {d~e: y}\n", "d.yaml", kNoSources);
  ASSERT_TRUE(document.parsed());
  const Value deep = document.Nearest("/a/1/b~1c/d~0e");
  EXPECT_EQ(deep.text(), "y");
  EXPECT_EQ(deep.line(), 3);
  EXPECT_EQ(deep.pointer(), "/a/1/b~1c/d~0e");
  EXPECT_EQ(document.Nearest("/a/7/x").pointer(), "/a");
  EXPECT_EQ(document.Nearest("").kind(), Kind::kMapping);
}

TEST(Document, SharesWhatAnAliasRepeats) {
  Document document("a: &x {n: 1}\nb: *x\n", "d.yaml", kNoSources);
  EXPECT_THAT(document.TakeProblems(), IsEmpty());
  EXPECT_EQ(document.Nearest("/b/n").text(), "1");
}

TEST(Document, RefusesWhatIsNotOneDocumentOfPlainValues) {
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"a: 1\n---\nb: 2\n",
       "d.yaml (line 2): holds more than one document; keep the first, without a second ---"},
      {"a: [1, 2\nb: 3\n",
       "d.yaml:/a (line 1): is not well-formed YAML: the \"[\" of this line is not closed: expected \",\" or "
       "\"]\" before line 2"},
      {"{[1]: 2}", "d.yaml (line 1): a key must be a text, found a list or a mapping"},
      {"{~: 2}", "d.yaml (line 1): a key must be a text, found nothing"},
      {"a: &x 1\n*x : 2\n", "d.yaml (line 2): a key must be written out, found an alias"},
      {"a: &x [*x]", "d.yaml:/a/0 (line 1): an alias must not be inside the value that it repeats"},
      {"a: !!binary aGk=", "d.yaml:/a (line 1): tags are not accepted; write the plain value"},
      {"a: 1\nb: \xff\xfe", "d.yaml (line 2): is not valid UTF-8"},
      {"a:\n  b: 1\n\tc: 2\n",
       "d.yaml (line 3): is indented by a tab, which YAML does not allow; use spaces"},
      {"a:\n\tb: 1\n", "d.yaml (line 2): is indented by a tab, which YAML does not allow; use spaces"},
      {"a: {\u202eb: 1, \u202eb: 2}", "d.yaml:/a/\\u202eb (line 1): key \"\\u202eb\" is given twice"},
      {"a: {b: 1, b: 2}", "d.yaml:/a/b (line 1): key \"b\" is given twice"},
      {"\"a\\nb\": {c: 1, c: 2}", "d.yaml:/a\\x0ab/c (line 1): key \"c\" is given twice"},
  };
  for (const auto& [text, problem] : kCases) EXPECT_THAT(Problems(text), ElementsAre(problem)) << text;
}

TEST(Document, RefusesTextWhoseQuoteIsNeverClosed) {
  constexpr std::string_view kWhy =
      ": is not well-formed YAML: a text that begins with a quote has no quote at its end";
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"a: 1\nb: \"x\nc: 2\n", "d.yaml:/b (line 2)"},
      {"a: 1\nb: 'x\nc: 2\n\n", "d.yaml:/b (line 2)"},
      {"a: 1\nb: \"x", "d.yaml:/b (line 2)"},
      {"a:\n  b:\n    c: \"x\n", "d.yaml:/a/b/c (line 3)"},
      {"a:\n  - x\n  - 'y\nb: 1\n", "d.yaml:/a/1 (line 2)"},
      {"a: [\"x\", \"y]\n", "d.yaml:/a/1 (line 1)"},
      {"a: 1\n\"b: 2\n", "d.yaml (line 1)"},
      {"\"a\n", "d.yaml (line 1)"},
      {"a: \"x\r\nb: 1\r\n", "d.yaml:/a (line 1)"},
      {"a:\n  b: 'x\n\tc: 2\n", "d.yaml:/a/b (line 2)"},
  };
  for (const auto& [text, where] : kCases)
    EXPECT_THAT(Problems(text), ElementsAre(fmt::format("{}{}", where, kWhy))) << text;
}

TEST(Document, KeepsTextAtItsEndAsWritten) {
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"a: |\n  x\n", "x\n"},
      {"a: |+\n  x\n\n", "x\n\n"},
      {"a: |-\n  x\n", "x"},
      {"a: >\n  x\n", "x\n"},
      {"a: x\n", "x"},
      {"a: x", "x"},
      {"a: \"x\"\n", "x"},
      {"a: x #\n", "x"},
      {"a: |\n  # x\n", "# x\n"},
  };
  for (const auto& [text, value] : kCases) {
    Document document(text, "d.yaml", kNoSources);
    EXPECT_THAT(document.TakeProblems(), IsEmpty()) << text;
    EXPECT_EQ(document.Nearest("/a").text(), value) << text;
  }
}

TEST(Document, SaysWhatWouldBeRightWhereYamlIsNotWellFormed) {
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"a: [*]\n", "put a pattern such as \"*\" or \"chat-*\" in quotes"},
      {"a: *\n", "put a pattern such as \"*\" or \"chat-*\" in quotes"},
      {"a: [*-large]\n", "put a pattern such as \"*\" or \"chat-*\" in quotes"},
      {"a: & b\n", "a text that begins with & must be in quotes"},
      {"a: @b\n", "a text that begins with @, % or ` must be in quotes"},
      {"a: b: c\n", "put a text that contains \": \" in quotes"},
      {"a:\n  b:1\n  c: 2\n", "write a space after the colon of each key"},
      {"a:\n    b: 1\n  c: 2\n", "begin it in the column of the keys before it"},
      {"a:\n  - b: 1\n   c: 2\n", "in the column of the entries before it"},
      {"a: {b: 1\nc: 2\n",
       "d.yaml:/a (line 1): is not well-formed YAML: the \"{\" of this line is not closed: "
       "expected \",\" or \"}\" before line 2"},
      {"a:\n  b: {c: [1, 2\n\n\nd: 4\n",
       "d.yaml:/a/b/c (line 2): is not well-formed YAML: the \"[\" of this line "
       "is not closed: expected \",\" or \"]\" before line 5"},
      {"a: 1\nb: {c: 1,\n\n",
       "d.yaml:/b (line 2): is not well-formed YAML: the \"{\" of this line is not closed: "
       "expected \",\" or \"}\" before the end of the file"},
      {"a: 1\nb: [ä,\n  ö",
       "d.yaml:/b (line 2): is not well-formed YAML: the \"[\" of this line is not closed: "
       "expected \",\" or \"]\" before the end of the file"},
      {"{\n  \"a\": {\"b\": 1},\n  \"c\": [1, 2]\n",
       "d.yaml (line 1): is not well-formed YAML: the \"{\" of this line is not closed: expected \",\" or "
       "\"}\" before the end"},
      {"{a: {b: 1}", "(line 1): is not well-formed YAML: the \"{\" of this line is not closed"},
      {"a:\n- [{b: '}'}, # ]\n  {c: \"]\\\"\",\n   d: 2",
       "d.yaml:/a/0 (line 3): is not well-formed YAML: the \"{\" of this"},
      {"a: [{b: 1}, {c: 2}", "(line 1): is not well-formed YAML: the \"[\" of this line is not closed"},
      {"? {a: 1}\n: 2\n", "a key must be a text, found a list or a mapping"},
      {"a: {b: \"x\" y}", "not closed: expected \",\" or \"}\" before the text that follows on this line"},
      {"a: [\n  - b\n",
       "d.yaml:/a (line 1): is not well-formed YAML: the \"[\" of this line is open in line 2"},
      {"a: 1]\nb: ]\n", "this \"]\" or \"}\" closes nothing that is open"},
      {"a: - b\n", "begin the list on a line of its own"},
      {"a: \"\\q\"\n", "write \\\\ for a \\, or use single quotes"},
  };
  for (const auto& [text, meaning] : kCases)
    EXPECT_THAT(Problems(text), ElementsAre(HasSubstr(meaning))) << text;
}

TEST(Document, RefusesAByteThatNoTextHas) {
  EXPECT_THAT(Problems(std::string_view("a: 1\nb: 2\0\n", 11)),
              ElementsAre(HasSubstr("(line 2): holds a byte of value 0")));
}

TEST(Document, AcceptsEmptyTextAsNothing) {
  for (const std::string_view text : {"", "\n", "# only a comment\n", "---\n"}) {
    Document document(text, "d.yaml", kNoSources);
    EXPECT_TRUE(document.parsed()) << text;
    EXPECT_EQ(document.root().kind(), Kind::kNull) << text;
  }
}

TEST(Document, BoundsSize) {
  EXPECT_THAT(Problems("a: 12345678", {.bytes = 10}),
              ElementsAre("d.yaml (line 1): is 11 bytes long; at most 10 are accepted"));
}

TEST(Document, BoundsDepth) {
  EXPECT_THAT(Problems(std::string(63, '[') + std::string(63, ']')), IsEmpty());
  EXPECT_THAT(Problems(std::string(65, '[') + std::string(65, ']')),
              ElementsAre("d.yaml (line 1): nests deeper than 64 levels"));
  std::string mappings;
  for (int i = 0; i < 65; ++i) mappings += "{a: ";
  EXPECT_THAT(Problems(mappings + "x" + std::string(65, '}')),
              ElementsAre("d.yaml (line 1): nests deeper than 64 levels"));
  EXPECT_EQ(Problems(std::string(100'000, '[')).size(), 1U);
  EXPECT_EQ(Problems(std::string(100'000, '{')).size(), 1U);
}

TEST(Document, BoundsDepthThroughAliases) {
  std::string text = "a0: &a0 [x]\n";
  for (int i = 1; i < 100; ++i) text += fmt::format("a{}: &a{} [*a{}]\n", i, i, i - 1);
  EXPECT_THAT(Problems(text), ElementsAre("d.yaml:/a62 (line 63): nests deeper than 64 levels"));
}

TEST(Document, BoundsWhatAliasesMultiply) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    text += fmt::format(
        "a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n", i, i - 1);
  }
  EXPECT_THAT(Problems(text),
              ElementsAre("d.yaml:/a5/1 (line 6): holds more than 200000 values, repeated ones counted"));
}

TEST(Document, KeepsABoundedNumberOfProblems) {
  Document document("a: 1", "d.yaml", kNoSources, {.problems = 3});
  for (int i = 0; i < 10; ++i) document.Add("/a", 1, "", "wrong");
  const std::vector<Problem> problems = document.TakeProblems();
  ASSERT_EQ(problems.size(), 4U);
  EXPECT_EQ(ToString(problems.back()), "d.yaml (line 1): 7 more problems are not shown");
}

TEST(Document, CutsLongValuesAtACharacter) {
  Document document("a: " + std::string(79, 'x') + "éé", "d.yaml", kNoSources);
  document.Nearest("/a").Error("is long");
  EXPECT_EQ(document.TakeProblems().at(0).value, std::string(79, 'x') + "é...");
}

TEST(Document, NamesTheLineOfATextThatIsTooLong) {
  Document document("a: 1\nb: 2\nc: 3\n", "d.yaml", kNoSources, {.bytes = 6});
  EXPECT_EQ(ToString(document.TakeProblems().at(0)),
            "d.yaml (line 2): is 15 bytes long; at most 6 are accepted");
}

TEST(Document, AProblemFoundLaterGetsTheLineOfItsPointer) {
  std::vector<Problem> problems = {{"j.yaml", "/a/b", 0, "", "is wrong"},
                                   {"j.yaml", "/x/y", 0, "", "is missing"}};
  AddLines("x: 1\na:\n  b: 2\n", problems);
  EXPECT_EQ(problems[0].line, 3);
  EXPECT_EQ(problems[1].line, 1) << "of what is nearest";
}

TEST(Problem, EscapesWhatATerminalWouldObeyWhereverItStands) {
  const Problem problem = {"t\x1b.yaml", "/a\u202e", 3, "\x07", "is \u009b wrong"};
  EXPECT_EQ(ToString(problem), "t\\x1b.yaml:/a\\u202e (line 3): is \\u009b wrong");
  EXPECT_EQ(ToJson(std::vector{problem}).find_first_of("\x1b\x07"), std::string::npos);
}

TEST(Problem, IsRenderedForPrograms) {
  const std::vector<Problem> problems = {{"t.yaml", "/a", 3, "x", "is wrong"},
                                         {"t.yaml", "", 0, "", "is not there"}};
  EXPECT_EQ(
      nlohmann::json::parse(ToJson(problems)),
      nlohmann::json::parse(R"([{"file":"t.yaml","pointer":"/a","line":3,"value":"x","message":"is wrong"},
                                      {"file":"t.yaml","pointer":"","message":"is not there"}])"));
}

}  // namespace
}  // namespace conf
