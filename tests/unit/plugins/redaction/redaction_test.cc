#include "plugins/redaction/redaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plugins {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Redacted(std::string text, const std::vector<RedactionPattern>& patterns = {}) {
  const absl::StatusOr<Redaction> redaction = Redaction::Make(patterns);
  EXPECT_TRUE(redaction.ok()) << redaction.status();
  Redaction::Counts counts;
  EXPECT_TRUE(redaction->Apply(text, counts));
  return text;
}

TEST(Redaction, BuiltInRulesTakeOutWhatIsPersonalOrSecret) {
  struct Case {
    std::string text, redacted;
  };
  const std::string key(32, 'a');
  for (const Case& c : {
           Case{"write to ada.lovelace+x@mail.example.com, please", "write to [email], please"},
           Case{"key tg-" + key + "!", "key [api_key]!"},
           Case{"OPENAI_API_KEY=sk-proj-" + key, "OPENAI_API_KEY=[api_key]"},
           Case{"ghp_" + key + " and AKIAIOSFODNN7EXAMPLE", "[api_key] and [api_key]"},
           Case{"Authorization: Bearer " + key, "Authorization: [api_key]"},
           Case{"-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----",
                "[private_key]"},
           Case{"card 4111 1111 1111 1111.", "card [card_number]."},
           Case{"order 4111 1111 1111 1112.", "order 4111 1111 1111 1112."},  // no check digit
           Case{"nothing here: a@b, 12345, sk-1", "nothing here: a@b, 12345, sk-1"},
       }) {
    EXPECT_EQ(Redacted(c.text), c.redacted);
  }
}

TEST(Redaction, PatternsOfTheConfigurationAreAppliedAndCounted) {
  const absl::StatusOr<Redaction> redaction = Redaction::Make({{"customer", "K-[0-9]{4}"}});
  ASSERT_TRUE(redaction.ok());
  EXPECT_THAT(redaction->names(), ElementsAre("private_key", "email", "api_key", "card_number", "customer"));
  nlohmann::ordered_json tree = {{"role", "K-1234"},
                                 {"content", {{{"type", "text"}, {"text", "K-1234, K-9999"}}}}};
  Redaction::Counts counts;
  ASSERT_TRUE(redaction->Apply(tree, counts));
  EXPECT_EQ(tree["content"][0]["text"], "[customer], [customer]");
  EXPECT_EQ(tree["role"], "K-1234");
  EXPECT_EQ(counts, (Redaction::Counts{{"customer", 2}}));
}

TEST(Redaction, AWrongPatternIsRefusedWithItsReason) {
  EXPECT_THAT(Redaction::WhyWrong({"open", "(a"}), HasSubstr("the pattern open is not a regular expression"));
  EXPECT_THAT(Redaction::WhyWrong({"all", "x*"}), HasSubstr("matches the empty text"));
  EXPECT_THAT(Redaction::WhyWrong({"Bad name", "x"}), HasSubstr("lower-case letters"));
  EXPECT_THAT(Redaction::WhyWrong({"email", "x"}), HasSubstr("built-in"));
  EXPECT_THAT(Redaction::WhyWrong({"long", std::string(513, 'x')}), HasSubstr("512 bytes"));
  EXPECT_EQ(Redaction::WhyWrong({"ok", "x+"}), "");
  EXPECT_FALSE(Redaction::Make({{"open", "(a"}}).ok());
}

TEST(Redaction, APatternThatTakesTooLongRefusesTheText) {
  const absl::StatusOr<Redaction> redaction = Redaction::Make({{"slow", "(a+)+b|(a|aa)+c|((a+)+)+d"}});
  ASSERT_TRUE(redaction.ok());
  std::string text(2000, 'a');
  Redaction::Counts counts;
  EXPECT_FALSE(redaction->Apply(text, counts));
}

}  // namespace
}  // namespace plugins
