#include "gateway/batches/input_index.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace gateway::batches {
namespace {

using testing::ElementsAre;

std::string Line(std::string_view id, std::string_view model = "m") {
  return fmt::format(R"({{"custom_id":"{}","method":"POST","url":"/v1/chat/completions",)"
                     R"("body":{{"model":"{}","messages":[]}}}})",
                     id, model);
}

IndexOptions Chat() {
  IndexOptions options;
  options.api = router::Api::kChatCompletions;
  options.url = "/v1/chat/completions";
  return options;
}

InputIndex Index(const std::vector<std::string>& lines, IndexOptions options = Chat()) {
  InputIndexer indexer(std::move(options));
  for (const std::string& line : lines) indexer.Add(line, 0);
  return indexer.Finish();
}

absl::StatusOr<InputIndex> IndexFile(const std::string& path) {
  absl::StatusOr<KeptFile> file = KeptFile::Open(path, nullptr, KeptFile::Access::kRead);
  if (!file.ok()) return file.status();
  return IndexInput(*file, Chat());
}

std::vector<std::string> CodesOf(const InputIndex& index) {
  std::vector<std::string> codes;
  for (const BatchProblem& problem : index.problems) codes.push_back(problem.code);
  return codes;
}

TEST(InputIndex, LinesStandByModelInTheirOrder) {
  const InputIndex index = Index({Line("a", "x"), Line("b", "y"), "  ", Line("c", "x")});
  EXPECT_THAT(CodesOf(index), ElementsAre());
  EXPECT_EQ(index.total, 3u);
  ASSERT_EQ(index.models.size(), 2u);
  EXPECT_EQ(index.models[0].model, "x");
  ASSERT_EQ(index.models[0].lines.size(), 2u);
  EXPECT_EQ(index.models[0].lines[1].number, 4u);
}

TEST(InputIndex, EveryBadLineIsNamedWithItsNumber) {
  const InputIndex index = Index({
      "{",
      R"({"method":"POST","url":"/v1/chat/completions","body":{}})",
      Line("a"),
      Line("a"),
      R"({"custom_id":"b","method":"GET","url":"/v1/chat/completions","body":{"model":"m"}})",
      R"({"custom_id":"c","method":"POST","url":"/v1/embeddings","body":{"model":"m"}})",
      R"({"custom_id":"d","method":"POST","url":"/v1/chat/completions","body":{"messages":[]}})",
      R"({"custom_id":"e","method":"POST","url":"/v1/chat/completions","body":{"model":"m","stream":true}})",
      R"({"custom_id":"f","custom_id":"g","method":"POST","url":"/v1/chat/completions","body":{"model":"m"}})",
      R"({"custom_id":"h","method":"POST","url":"/v1/chat/completions","body":[]})",
      Line("i") + "x",
  });
  EXPECT_THAT(CodesOf(index),
              ElementsAre("invalid_json_line", "missing_required_parameter", "duplicate_custom_id",
                          "invalid_method", "mismatched_url", "missing_model", "unsupported_parameter",
                          "duplicate_key", "invalid_type", "invalid_json_line"));
  EXPECT_EQ(index.problems[0].line, 1u);
  EXPECT_EQ(index.problems[2].line, 4u);
  EXPECT_EQ(index.problems[2].param, "custom_id");
  EXPECT_EQ(index.problems[6].param, "body.stream");
}

// As Windows' editors write it.
TEST(InputIndex, AByteOrderMarkIsNotPartOfTheFirstLine) {
  const std::string mark = "\xEF\xBB\xBF";
  const InputIndex index = Index({mark + Line("a"), Line("b")});
  EXPECT_THAT(CodesOf(index), ElementsAre());
  ASSERT_EQ(index.models.size(), 1u);
  EXPECT_EQ(index.models[0].lines[0].offset, mark.size());
  EXPECT_EQ(index.models[0].lines[0].bytes, Line("a").size());
  EXPECT_THAT(CodesOf(Index({Line("a"), mark + Line("b")})), ElementsAre("invalid_json_line"));
}

TEST(InputIndex, AModelThatMayNotBeAskedIsAProblem) {
  IndexOptions options = Chat();
  options.why_not = [](std::string_view model) {
    return model == "m" ? std::nullopt : std::optional<std::string>("not yours");
  };
  const InputIndex index = Index({Line("a"), Line("b", "secret")}, options);
  EXPECT_THAT(CodesOf(index), ElementsAre("model_not_found"));
  EXPECT_EQ(index.problems[0].message, "not yours");
}

TEST(InputIndex, ProblemsAndLinesAreBounded) {
  IndexOptions options = Chat();
  options.max_lines = 2;
  EXPECT_THAT(CodesOf(Index({Line("a"), Line("b"), Line("c"), Line("d")}, options)),
              ElementsAre("too_many_lines"));
  const InputIndex bad = Index(std::vector<std::string>(kMaxProblems + 5, "x"));
  EXPECT_EQ(bad.problems.size(), kMaxProblems + 1);
  EXPECT_EQ(bad.problems.back().code, "more_problems");
  EXPECT_THAT(CodesOf(Index({})), ElementsAre("empty_file"));
}

TEST(InputIndex, LinesThatAreDoneCountAndAreNotSentAgain) {
  const absl::flat_hash_set<std::string> done{"a"};
  IndexOptions options = Chat();
  options.done = &done;
  const InputIndex index = Index({Line("a"), Line("b")}, options);
  EXPECT_EQ(index.total, 2u);
  ASSERT_EQ(index.models.size(), 1u);
  ASSERT_EQ(index.models[0].lines.size(), 1u);
  EXPECT_EQ(index.models[0].lines[0].number, 2u);
}

TEST(InputIndex, OffsetsOfAFileLeadToItsLines) {
  const tests::TempDir dir;
  const std::string text = Line("a") + "\r\n\n" + std::string(3u << 20, ' ') + "\n" + Line("b");
  std::ofstream(dir / "in") << text;
  const absl::StatusOr<InputIndex> index = IndexFile(dir / "in");
  ASSERT_TRUE(index.ok()) << index.status();
  ASSERT_EQ(index->models.size(), 1u);
  ASSERT_EQ(index->models[0].lines.size(), 2u);
  for (const LineRef& ref : index->models[0].lines) {
    const auto parsed = ParseInputLine(text.substr(ref.offset, ref.bytes));
    ASSERT_TRUE(std::holds_alternative<InputLine>(parsed)) << ref.number;
  }
  EXPECT_EQ(index->models[0].lines[1].number, 4u);
}

TEST(InputIndex, ALineThatIsTooLongIsNamedAndNotKept) {
  const tests::TempDir dir;
  std::ofstream(dir / "in") << std::string(kMaxLineBytes + 1, 'x') << "\n" << Line("b") << "\n";
  const absl::StatusOr<InputIndex> index = IndexFile(dir / "in");
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_THAT(CodesOf(*index), ElementsAre("line_too_long"));
}

}  // namespace
}  // namespace gateway::batches
