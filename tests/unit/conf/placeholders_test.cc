#include "conf/placeholders.h"

#include <gtest/gtest.h>

#include <utility>

namespace conf {
namespace {

bool IsName(std::string_view name) {
  return name == "id" || name == "rank";
}

std::string Fill(std::string_view text) {
  return FillPlaceholders(text, [](std::string_view name) -> std::optional<std::string> {
    if (!IsName(name)) return std::nullopt;
    return name == "id" ? "run-1" : "0";
  });
}

TEST(Placeholders, StandForAValueAndWithAPairOfBracesMoreForThemselves) {
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"", ""},
      {"{id}", "run-1"},
      {"a{id}b{rank}", "arun-1b0"},
      {"{{id}}", "{id}"},
      {"{{{id}}}", "{{id}}"},
      {"{{id}} is {id}", "{id} is run-1"},
      {"{other} {{other}}", "{other} {{other}}"},
      {R"({"a":{"rank":{rank}}})", R"({"a":{"rank":0}})"},
      {"{{id}", "{run-1"},
      {"${id} $((1+{rank}))", "$run-1 $((1+0))"},
      {"{", "{"},
      {"{id", "{id"},
      {"{{id{rank}", "{{id0"},
      {"}{id}", "}run-1"},
      {"{}", "{}"},
  };
  for (const auto& [text, filled] : kCases) EXPECT_EQ(Fill(text), filled) << text;
}

TEST(Placeholders, AnyTextCanBeEscaped) {
  for (const std::string_view text :
       {"{id}", "{{id}}", "{{{id}}}", "x{id}}y", "{{id}", "{other}", "{\"a\":{rank}}", "{", "plain"})
    EXPECT_EQ(Fill(EscapePlaceholders(text, IsName)), text) << EscapePlaceholders(text, IsName);
}

TEST(Placeholders, AnEscapedOneIsNotUsed) {
  EXPECT_TRUE(UsesPlaceholder("--id={id}", "id"));
  EXPECT_TRUE(UsesPlaceholder("{{id}} {id}", "id"));
  EXPECT_FALSE(UsesPlaceholder("{{id}}", "id"));
  EXPECT_FALSE(UsesPlaceholder("{rank}", "id"));
}

TEST(Placeholders, UnevenBracesAreFound) {
  EXPECT_EQ(UnevenPlaceholder("a {{id} b", IsName), "{{id}");
  EXPECT_EQ(UnevenPlaceholder("{{{rank}}", IsName), "{{{rank}}");
  EXPECT_EQ(UnevenPlaceholder("{{id}}}", IsName), "{{id}}}");
  EXPECT_EQ(UnevenPlaceholder("{{id}} {rank}} {\"a\":{id}} {{other}", IsName), "");
}

}  // namespace
}  // namespace conf
