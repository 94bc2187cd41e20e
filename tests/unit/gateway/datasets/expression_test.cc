#include "gateway/datasets/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gateway::datasets {
namespace {

using ::testing::HasSubstr;

ledger::KeptFeedback Said(std::string name, ledger::FeedbackValue value, std::string correction = {}) {
  ledger::KeptFeedback out;
  out.feedback.name = std::move(name);
  out.feedback.value = std::move(value);
  out.feedback.correction = std::move(correction);
  return out;
}

struct ExpressionTest : ::testing::Test {
  std::vector<ledger::KeptFeedback> feedback = {Said("helpful", false), Said("score", 4.0),
                                                Said("tone", std::string("rude"), "sealed")};
  Subject subject{.tenant = "acme/search",
                  .key = "k1",
                  .model = "chat-small",
                  .version = "org/chat-7b",
                  .api = "chat_completions",
                  .reason = "done",
                  .replica = "r1",
                  .input_tokens = 100,
                  .cached_tokens = 0,
                  .output_tokens = 20,
                  .cost_usd = 0.0005,
                  .latency_s = 1.5,
                  .ttft_s = -1,
                  .status = 200,
                  .feedback = [this] { return std::span<const ledger::KeptFeedback>(feedback); }};

  bool Matches(std::string_view text) const {
    const auto parsed = Expression::Parse(text);
    if (const auto* const problem = std::get_if<Expression::Problem>(&parsed)) {
      ADD_FAILURE() << text << ": " << problem->position << ": " << problem->message;
      return false;
    }
    return std::get<Expression>(parsed).Matches(subject);
  }
};

TEST_F(ExpressionTest, ConditionsHoldByFieldsAndFeedback) {
  for (const char* text : {"feedback.helpful = false and model = chat-small",
                           "model = 'chat-small'",
                           "model == \"chat-small\"",
                           "feedback.score >= 4",
                           "feedback.score > 3 AND NOT feedback.score > 4",
                           "feedback.tone = rude",
                           "feedback.tone in (rude, 'very rude')",
                           "feedback.helpful exists",
                           "not feedback.other exists",
                           "output < 21 and input >= 100",
                           "tenant in (other, acme/search)",
                           "tenant not in (other)",
                           "version != org/chat-8b",
                           "cost <= 0.0005",
                           "latency > 1.4",
                           "status = 200",
                           "corrected = true",
                           "model = x or model = y or api = chat_completions",
                           "(model = x or reason = done) and key = k1",
                           "not (model = x and reason = done)",
                           "model = x and reason = x or key = k1"}) {
    EXPECT_TRUE(Matches(text)) << text;
  }
  for (const char* text :
       {"feedback.helpful = true", "feedback.helpful = 0", "feedback.score != 4", "feedback.other = true",
        "feedback.other != true", "ttft < 1000", "ttft >= 0", "model = x and (reason = done or key = k1)",
        "not not model = x", "corrected = false"}) {
    EXPECT_FALSE(Matches(text)) << text;
  }
  EXPECT_TRUE(Expression().Matches(subject));
}

TEST_F(ExpressionTest, AnyKeysFeedbackThatFitsSuffices) {
  feedback = {Said("helpful", true), Said("helpful", false)};
  EXPECT_TRUE(Matches("feedback.helpful = true"));
  EXPECT_TRUE(Matches("feedback.helpful = false"));
}

TEST(Expression, ErrorsNameThePositionAndWhatWouldBeRight) {
  struct Case {
    std::string text;
    size_t position;
    std::string message;
  };
  for (const Case& c : {
           Case{"", 1, "a condition is missing"},
           Case{"   ", 4, "a condition is missing"},
           Case{"modle = chat-small", 1, "unknown field \"modle\", did you mean \"model\"?"},
           Case{"model chat-small", 7, "is not an operator"},
           Case{"model =", 8, "a value is missing"},
           Case{"model = 'chat", 9, "no closing '"},
           Case{"model < chat", 7, "only numbers have an order"},
           Case{"feedback.helpful > true", 18, "only numbers have an order"},
           Case{"output = many", 10, "output is a number"},
           Case{"corrected = 1", 13, "corrected is a boolean"},
           Case{"feedback. = true", 1, "followed by its name"},
           Case{"(model = a", 11, "a \")\" is missing for the \"(\" at character 1"},
           Case{"model = a)", 10, "one too many"},
           Case{"model = a model = b", 11, "one too many"},
           Case{"model = a and", 14, "a condition is missing"},
           Case{"model in a", 10, "a list must follow"},
           Case{"model in (a b)", 13, "\",\" or the \")\""},
           Case{"model in ()", 11, "a value is expected here"},
           Case{"model not = a", 11, "\"in\" must follow"},
           Case{"model exists", 1, "exists is for feedback.NAME"},
           Case{"model = $x", 9, "is not allowed here"},
           Case{"= a", 1, "is not a field"},
       }) {
    const auto parsed = Expression::Parse(c.text);
    const auto* const problem = std::get_if<Expression::Problem>(&parsed);
    ASSERT_NE(problem, nullptr) << c.text;
    EXPECT_EQ(problem->position, c.position) << c.text << ": " << problem->message;
    EXPECT_THAT(problem->message, HasSubstr(c.message)) << c.text;
  }
}

TEST(Expression, LengthDepthAndConditionsAreBounded) {
  const auto fails = [](const std::string& text, const char* why) {
    const auto parsed = Expression::Parse(text);
    const auto* const problem = std::get_if<Expression::Problem>(&parsed);
    ASSERT_NE(problem, nullptr);
    EXPECT_THAT(problem->message, HasSubstr(why));
  };
  fails("model = " + std::string(5000, 'a'), "longer than 4096 bytes");
  fails(std::string(2000, '('), "more than 32 deep");
  std::string nots;
  for (int i = 0; i < 500; ++i) nots += "not ";
  fails(nots + "model = a", "more than 32 deep");
  std::string many = "model = a";
  for (int i = 0; i < 64; ++i) many += " or model = a";
  fails(many, "more than 64 conditions");
}

}  // namespace
}  // namespace gateway::datasets
