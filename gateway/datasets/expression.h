// Expression: which requests a data set has, as a condition over their facts and the feedback on them.
//
//   feedback.helpful = false and model = chat-small
//   (feedback.score >= 4 or not feedback.helpful exists) and output < 500 and tenant in (acme/search, demo)
//
//   condition  = and-term { "or" and-term }          and-term = not-term { "and" not-term }
//   not-term   = "not" not-term | "(" condition ")" | comparison
//   comparison = field ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) literal
//              | field [ "not" ] "in" "(" literal { "," literal } ")" | field "exists"
//   literal    = true | false | number | 'text' | "text" | a word such as chat-small
//
// Fields are typed (Fields()); feedback.NAME has the type of what it is compared with. A comparison with
// feedback that a request does not have, or has with another type, is false. Where several keys have judged a
// request, one that fits suffices.
//
// Pure; any thread. Bounded: kMaxBytes, kMaxDepth, kMaxComparisons.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gateway/ledger/feedback_table.h"

namespace gateway::datasets {

// What is known of a request that has ended. Views live as long as the subject.
struct Subject {
  std::string_view tenant, key, model, version, api, reason, replica;
  int64_t input_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t output_tokens = 0;
  double cost_usd = 0;
  double latency_s = 0;  // of the whole answer; negative: not known
  double ttft_s = 0;     // to the first token; likewise
  int64_t status = 0;
  std::function<std::span<const ledger::KeptFeedback>()> feedback;  // asked for once it is needed
};

class Expression {
 public:
  static constexpr size_t kMaxBytes = 4096;
  static constexpr size_t kMaxDepth = 32;
  static constexpr size_t kMaxComparisons = 64;

  struct Problem {
    size_t position = 0;  // of the character in the text, from 1; after its end where something is missing
    std::string message;
  };
  static std::variant<Expression, Problem> Parse(std::string_view text);

  // An expression without conditions: every request.
  Expression() = default;

  bool Matches(const Subject& subject) const;
  bool UsesFeedback() const { return uses_feedback_; }

  struct FieldInfo {
    std::string_view name;
    std::string_view type;  // text, number, boolean
    std::string_view about;
  };
  static std::span<const FieldInfo> Fields();

 private:
  friend class ExpressionParser;
  enum class Op : uint8_t {
    kEqual,
    kNotEqual,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kIn,
    kNotIn,
    kExists
  };
  struct Comparison {
    size_t field = 0;           // in Fields(); Fields().size(): feedback
    std::string feedback = {};  // its name
    Op op = Op::kEqual;
    std::vector<ledger::FeedbackValue> literals = {};
  };
  enum class Kind : uint8_t { kAnd, kOr, kNot, kCompare };
  struct Node {
    Kind kind = Kind::kCompare;
    size_t left = 0;   // of kAnd, kOr, kNot: a node; of kCompare: a comparison
    size_t right = 0;  // of kAnd, kOr
  };

  bool Holds(size_t node, const Subject& subject) const;
  static bool Compare(const Comparison& comparison, const Subject& subject);
  static bool Fits(Op op, const ledger::FeedbackValue& value,
                   const std::vector<ledger::FeedbackValue>& literals);

  std::vector<Node> nodes_;  // the last is the root
  std::vector<Comparison> comparisons_;
  bool uses_feedback_ = false;
};

}  // namespace gateway::datasets
