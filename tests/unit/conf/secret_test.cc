#include "conf/secret.h"

#include <absl/status/status.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "conf/reader.h"
#include "conf/text.h"

namespace conf {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Sources FakeSources() {
  return {
      .environment = [](const std::string& name) -> std::optional<std::string> {
        if (name == "KEY") return "s3cret";
        if (name == "EMPTY") return "";
        if (name == "BROKEN") return "a\r\nb";
        return std::nullopt;
      },
      .file = [](const std::string& path) -> absl::StatusOr<std::string> {
        const std::map<std::string, std::string> files = {
            {"key", "from-file\n"}, {"dos", "dos\r\n"}, {"empty", "\n"}, {"large", std::string(65537, 'x')}};
        const auto found = files.find(path);
        if (found != files.end()) return found->second;
        return absl::UnavailableError(fmt::format("cannot read \"{}\": No such file or directory", path));
      }};
}

struct Result {
  Secret secret;
  std::vector<Problem> problems;
};

Result ReadSecret(std::string_view text) {
  const Sources sources = FakeSources();
  Document document(text, "s.yaml", sources);
  Result out;
  Read(document.root(), out.secret);
  out.problems = document.TakeProblems();
  return out;
}

TEST(Secret, IsResolvedFromItsReference) {
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"env:KEY", "s3cret"}, {"file:key", "from-file"}, {"file:dos", "dos"}};
  for (const auto& [reference, value] : kCases) {
    const Result r = ReadSecret(reference);
    EXPECT_THAT(r.problems, IsEmpty());
    EXPECT_EQ(r.secret.Reveal(), value);
    EXPECT_EQ(r.secret.reference(), reference);
  }
}

TEST(Secret, IsRefusedWithoutShowingWhatStandsThere) {
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"sk-live-123",
       "s.yaml (line 1): a secret is given by reference only, env:NAME or file:PATH, so that it is never "
       "in a "
       "configuration file"},
      {"env:sk-live-123",
       "s.yaml (line 1): env: must be followed by the name of an environment variable, such as "
       "env:TIDEGATE_ADMIN_KEY"},
      {"\"env:\"",
       "s.yaml (line 1): env: must be followed by the name of an environment variable, such as "
       "env:TIDEGATE_ADMIN_KEY"},
      {"env:NOT_SET", "s.yaml (line 1): environment variable NOT_SET is not set"},
      {"env:EMPTY", "s.yaml (line 1): environment variable EMPTY is empty"},
      {"env:BROKEN",
       "s.yaml (line 1): the secret behind env:BROKEN has a line break or another control character in it"},
      {"\"file:\"", "s.yaml (line 1): file: must be followed by a path, such as file:/run/secrets/admin-key"},
      {"file:gone", "s.yaml (line 1): cannot read \"gone\": No such file or directory"},
      {"file:empty", "s.yaml (line 1): the file \"empty\" is empty"},
      {"file:large", "s.yaml (line 1): the file \"large\" is too large for a secret"},
      {"[x]", "s.yaml (line 1): expected a reference to a secret, env:NAME or file:PATH, found a list"},
  };
  for (const auto& [text, problem] : kCases) {
    const Result r = ReadSecret(text);
    ASSERT_EQ(r.problems.size(), 1U) << text;
    EXPECT_EQ(ToString(r.problems[0]), problem);
    EXPECT_EQ(r.problems[0].value, "");
    EXPECT_THAT(ToJson(r.problems), Not(HasSubstr("live-123")));
    EXPECT_TRUE(r.secret.empty());
  }
}

TEST(Secret, IsNeverPrinted) {
  const Secret secret("env:KEY", "s3cret");
  EXPECT_EQ(fmt::format("{}", secret), "***");
  EXPECT_EQ(testing::PrintToString(secret), "***");
}

TEST(Secret, LeavesNothingBehindWhenItMoves) {
  for (const std::string& value : {std::string("short"), std::string(100, 'x')}) {
    Secret from("env:KEY", value);
    const Secret to = std::move(from);
    EXPECT_EQ(to.Reveal(), value);
    EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(std::memcmp(from.Reveal().data(), "\0\0\0\0\0", 5), 0) << "the small buffer";
  }
}

TEST(Secret, WipeOverwritesTheWholeBuffer) {
  std::string text(64, 'x');
  const char* bytes = text.data();
  text.resize(3);
  Wipe(text);
  EXPECT_TRUE(text.empty());
  ASSERT_EQ(text.data(), bytes);
  EXPECT_EQ(std::string(bytes, 64), std::string(64, '\0'));
}

}  // namespace
}  // namespace conf
