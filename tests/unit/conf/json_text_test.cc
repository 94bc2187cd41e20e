#include "conf/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace conf {
namespace {

TEST(JsonText, ValidTextReadsBack) {
  std::string controls;
  for (char c = 0; c < 0x20; ++c) controls.push_back(c);
  for (const std::string& text :
       {std::string(), std::string("plain text of some length"), std::string("quote\" back\\slash"),
        controls + "\x7f", std::string("gr\xC3\xBC\xC3\x9F \xE6\x97\xA5 \xF0\x9F\x8C\x8A")}) {
    const std::string quoted = Quoted(text);
    EXPECT_EQ(nlohmann::json::parse(quoted).get<std::string>(), text);
    EXPECT_EQ(quoted.find('\n'), std::string::npos);
    std::string escaped = "x";
    AppendEscaped(escaped, text);
    EXPECT_EQ("x" + quoted.substr(1, quoted.size() - 2), escaped);
  }
}

TEST(JsonText, EachIllFormedPartOfUtf8BecomesOneReplacement) {
  const std::string replacement = "\xEF\xBF\xBD";
  struct Case {
    std::string text;
    std::string read;
  };
  for (const Case& c :
       {Case{"a\xFFz", "a" + replacement + "z"}, Case{"\xC0\xAF", replacement + replacement},
        Case{"\xED\xA0\x80", replacement + replacement + replacement},
        Case{"cut \xE6\x97", "cut " + replacement}, Case{"\xE6\x97 cut", replacement + " cut"}}) {
    EXPECT_EQ(nlohmann::json::parse(Quoted(c.text)).get<std::string>(), c.read);
  }
}

}  // namespace
}  // namespace conf
