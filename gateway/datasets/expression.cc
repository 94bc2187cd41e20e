#include "gateway/datasets/expression.h"

#include <absl/strings/ascii.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "conf/text.h"

namespace gateway::datasets {
namespace {

using ledger::FeedbackValue;

constexpr std::array kFieldInfos = {
    Expression::FieldInfo{"tenant", "text", "the tenant's path"},
    Expression::FieldInfo{"key", "text", "the id of the caller's key"},
    Expression::FieldInfo{"model", "text", "the model that was asked"},
    Expression::FieldInfo{"version", "text", "what served it: the model's name at the engine"},
    Expression::FieldInfo{"api", "text", "such as chat_completions"},
    Expression::FieldInfo{"reason", "text", "how it ended: done, length, …"},
    Expression::FieldInfo{"replica", "text", "the replica that served it"},
    Expression::FieldInfo{"input", "number", "tokens of the prompt"},
    Expression::FieldInfo{"cached", "number", "of these, from a cache"},
    Expression::FieldInfo{"output", "number", "tokens of the answer"},
    Expression::FieldInfo{"cost", "number", "in USD"},
    Expression::FieldInfo{"latency", "number", "seconds to the end of the answer"},
    Expression::FieldInfo{"ttft", "number", "seconds to the first token"},
    Expression::FieldInfo{"status", "number", "the HTTP status"},
    Expression::FieldInfo{"corrected", "boolean", "whether any feedback has a correction"},
};
constexpr std::string_view kFeedbackPrefix = "feedback.";

bool IsWordChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.' || c == '/' ||
         c == ':' || c == '@';
}

FeedbackValue ValueOf(size_t field, const Subject& of) {
  const auto text = [](std::string_view value) { return FeedbackValue(std::string(value)); };
  switch (field) {
    case 0:
      return text(of.tenant);
    case 1:
      return text(of.key);
    case 2:
      return text(of.model);
    case 3:
      return text(of.version);
    case 4:
      return text(of.api);
    case 5:
      return text(of.reason);
    case 6:
      return text(of.replica);
    case 7:
      return static_cast<double>(of.input_tokens);
    case 8:
      return static_cast<double>(of.cached_tokens);
    case 9:
      return static_cast<double>(of.output_tokens);
    case 10:
      return of.cost_usd;
    case 11:
      return of.latency_s;
    case 12:
      return of.ttft_s;
    case 13:
      return static_cast<double>(of.status);
    default:
      return of.feedback && std::ranges::any_of(of.feedback(), [](const ledger::KeptFeedback& one) {
               return !one.feedback.correction.empty();
             });
  }
}

}  // namespace

// Recursive descent; the depth is bounded.
class ExpressionParser {
 public:
  using Op = Expression::Op;
  explicit ExpressionParser(std::string_view text) : text_(text) {}

  std::variant<Expression, Expression::Problem> Run() {
    if (text_.size() > Expression::kMaxBytes)
      Fail(Expression::kMaxBytes,
           fmt::format("the condition is longer than {} bytes", Expression::kMaxBytes));
    Next();
    if (!problem_ && token_.kind == Token::kEnd)
      Fail(token_.begin, "a condition is missing, such as feedback.helpful = false");
    if (!problem_) Or(0);
    if (!problem_ && token_.kind != Token::kEnd)
      Fail(token_.begin, fmt::format("\"{}\" is one too many here: join conditions by and, or", Shown()));
    if (problem_) return *std::move(problem_);
    return std::move(out_);
  }

 private:
  struct Token {
    enum Kind : uint8_t { kEnd, kWord, kText, kSymbol } kind = kEnd;
    size_t begin = 0;
    std::string text = {};
  };

  void Fail(size_t begin, std::string message) {
    if (!problem_) problem_ = Expression::Problem{begin + 1, std::move(message)};
    token_ = {Token::kEnd, begin, {}};
  }

  std::string_view Shown() const { return std::string_view(token_.text).substr(0, 64); }

  void Next() {
    if (problem_) return;
    while (at_ < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    const size_t begin = at_;
    if (at_ == text_.size()) {
      token_ = {Token::kEnd, begin, {}};
      return;
    }
    const char c = text_[at_];
    if (c == '\'' || c == '"') {
      const size_t end = text_.find(c, at_ + 1);
      if (end == std::string_view::npos)
        return Fail(begin, fmt::format("the text that begins here has no closing {}", c));
      token_ = {Token::kText, begin, std::string(text_.substr(at_ + 1, end - at_ - 1))};
      at_ = end + 1;
      return;
    }
    if (IsWordChar(c)) {
      while (at_ < text_.size() && IsWordChar(text_[at_])) ++at_;
      token_ = {Token::kWord, begin, std::string(text_.substr(begin, at_ - begin))};
      return;
    }
    for (const std::string_view symbol : {"<=", ">=", "!=", "==", "=", "<", ">", "(", ")", ","}) {
      if (!text_.substr(at_).starts_with(symbol)) continue;
      at_ += symbol.size();
      token_ = {Token::kSymbol, begin, std::string(symbol)};
      return;
    }
    Fail(begin, fmt::format("\"{}\" is not allowed here; write texts with such characters in quotes", c));
  }

  bool IsSymbol(std::string_view symbol) const {
    return token_.kind == Token::kSymbol && token_.text == symbol;
  }
  bool IsKeyword(std::string_view word) const {
    return token_.kind == Token::kWord && conf::EqualsIgnoreCase(token_.text, word);
  }

  size_t Add(Expression::Kind kind, size_t left, size_t right = 0) {
    out_.nodes_.push_back({kind, left, right});
    return out_.nodes_.size() - 1;
  }

  size_t Or(size_t depth) {
    size_t left = And(depth);
    while (!problem_ && IsKeyword("or")) {
      Next();
      const size_t right = And(depth);
      left = Add(Expression::Kind::kOr, left, right);
    }
    return left;
  }

  size_t And(size_t depth) {
    size_t left = Not(depth);
    while (!problem_ && IsKeyword("and")) {
      Next();
      const size_t right = Not(depth);
      left = Add(Expression::Kind::kAnd, left, right);
    }
    return left;
  }

  size_t Not(size_t depth) {
    if (problem_) return 0;
    if (depth > Expression::kMaxDepth) {
      Fail(token_.begin, fmt::format("conditions are nested more than {} deep", Expression::kMaxDepth));
      return 0;
    }
    if (IsKeyword("not")) {
      Next();
      const size_t inner = Not(depth + 1);
      return Add(Expression::Kind::kNot, inner);
    }
    if (IsSymbol("(")) {
      const size_t begin = token_.begin;
      Next();
      const size_t inner = Or(depth + 1);
      if (problem_) return 0;
      if (!IsSymbol(")")) {
        Fail(token_.begin, fmt::format("a \")\" is missing for the \"(\" at character {}", begin + 1));
        return 0;
      }
      Next();
      return inner;
    }
    return Compare();
  }

  // The place of a field; nothing after a failure.
  std::optional<Expression::Comparison> Field() {
    if (token_.kind == Token::kEnd) {
      Fail(token_.begin, "a condition is missing here, such as model = chat-small");
      return std::nullopt;
    }
    if (token_.kind != Token::kWord) {
      Fail(token_.begin, fmt::format("\"{}\" is not a field; a condition begins with one, such as model or "
                                     "feedback.helpful",
                                     Shown()));
      return std::nullopt;
    }
    Expression::Comparison out;
    if (token_.text.starts_with(kFeedbackPrefix)) {
      out.field = kFieldInfos.size();
      out.feedback = token_.text.substr(kFeedbackPrefix.size());
      if (out.feedback.empty() || out.feedback.size() > ledger::kMaxFeedbackName) {
        Fail(token_.begin, "feedback. must be followed by its name, such as feedback.helpful");
        return std::nullopt;
      }
      out_.uses_feedback_ = true;
      return out;
    }
    const auto* const found =
        std::ranges::find(kFieldInfos, std::string_view(token_.text), &Expression::FieldInfo::name);
    if (found == kFieldInfos.end()) {
      std::vector<std::string_view> names;
      for (const auto& info : kFieldInfos) names.push_back(info.name);
      std::string hint = conf::DidYouMean(token_.text, names);
      if (hint.empty()) hint = fmt::format("; fields are {} and feedback.NAME", fmt::join(names, ", "));
      Fail(token_.begin, fmt::format("unknown field \"{}\"{}", Shown(), hint));
      return std::nullopt;
    }
    out.field = static_cast<size_t>(found - kFieldInfos.begin());
    if (found->name == "corrected") out_.uses_feedback_ = true;
    return out;
  }

  std::optional<Op> Operator() {
    constexpr std::pair<std::string_view, Op> kOps[] = {
        {"=", Op::kEqual},      {"==", Op::kEqual},  {"!=", Op::kNotEqual},    {"<", Op::kLess},
        {"<=", Op::kLessEqual}, {">", Op::kGreater}, {">=", Op::kGreaterEqual}};
    for (const auto& [symbol, op] : kOps) {
      if (IsSymbol(symbol)) return op;
    }
    if (IsKeyword("in")) return Op::kIn;
    if (IsKeyword("not")) return Op::kNotIn;
    if (IsKeyword("exists")) return Op::kExists;
    Fail(token_.begin,
         token_.kind == Token::kEnd
             ? std::string("an operator is missing: =, !=, <, <=, >, >=, in or exists")
             : fmt::format("\"{}\" is not an operator; use =, !=, <, <=, >, >=, in or exists", Shown()));
    return std::nullopt;
  }

  // A literal of the field's type.
  bool Literal(const Expression::Comparison& of, std::vector<FeedbackValue>& into) {
    if (token_.kind == Token::kEnd || token_.kind == Token::kSymbol) {
      Fail(token_.begin, token_.kind == Token::kEnd
                             ? std::string("a value is missing")
                             : fmt::format("a value is expected here, not \"{}\"", Shown()));
      return false;
    }
    const Token at = token_;
    FeedbackValue value = at.text;
    if (at.kind == Token::kWord) {
      double number = 0;
      const char* const end = at.text.data() + at.text.size();
      const auto read = std::from_chars(at.text.data(), end, number);
      if (read.ec == std::errc() && read.ptr == end && std::isfinite(number)) value = number;
      if (IsKeyword("true") || IsKeyword("false")) value = IsKeyword("true");
    }
    if (of.field < kFieldInfos.size()) {
      const Expression::FieldInfo& info = kFieldInfos[of.field];
      // A word such as 7b or 2024 may well be a name.
      if (info.type == "text" && at.kind == Token::kWord) value = at.text;
      if (Name(ledger::TypeOf(value)) != info.type) {
        Fail(at.begin, fmt::format("{} is a {}: compare it with one{}, not with \"{}\"", info.name, info.type,
                                   info.type == "boolean" ? " (true or false)" : "",
                                   std::string_view(at.text).substr(0, 64)));
        return false;
      }
    }
    into.push_back(std::move(value));
    Next();
    return !problem_;
  }

  size_t Compare() {
    if (out_.comparisons_.size() == Expression::kMaxComparisons) {
      Fail(token_.begin, fmt::format("there are more than {} conditions", Expression::kMaxComparisons));
      return 0;
    }
    const size_t begin = token_.begin;
    std::optional<Expression::Comparison> out = Field();
    if (!out) return 0;
    Next();
    const std::optional<Op> op = problem_ ? std::nullopt : Operator();
    if (!op) return 0;
    const size_t at = token_.begin;
    out->op = *op;
    Next();
    if (*op == Op::kNotIn) {
      if (!problem_ && !IsKeyword("in")) Fail(token_.begin, "\"in\" must follow \"not\" here");
      Next();
    }
    if (*op == Op::kIn || *op == Op::kNotIn) {
      if (!List(*out)) return 0;
    } else if (*op != Op::kExists) {
      if (problem_ || !Literal(*out, out->literals)) return 0;
      const bool ordered = *op != Op::kEqual && *op != Op::kNotEqual;
      if (ordered && ledger::TypeOf(out->literals.front()) != ledger::FeedbackType::kNumber) {
        Fail(at, "only numbers have an order: use = or != for texts and booleans");
        return 0;
      }
    } else if (out->field != kFieldInfos.size()) {
      Fail(begin, "only feedback may be absent: exists is for feedback.NAME");
      return 0;
    }
    out_.comparisons_.push_back(*std::move(out));
    return Add(Expression::Kind::kCompare, out_.comparisons_.size() - 1);
  }

  bool List(Expression::Comparison& out) {
    if (problem_) return false;
    if (!IsSymbol("(")) {
      Fail(token_.begin, "a list must follow \"in\", such as (chat-small, chat-large)");
      return false;
    }
    do {
      Next();
      if (problem_ || !Literal(out, out.literals)) return false;
    } while (IsSymbol(","));
    if (!IsSymbol(")")) {
      Fail(token_.begin, "a \",\" or the \")\" of the list is missing");
      return false;
    }
    Next();
    return !problem_;
  }

  const std::string_view text_;
  size_t at_ = 0;
  Token token_;
  Expression out_;
  std::optional<Expression::Problem> problem_;
};

std::span<const Expression::FieldInfo> Expression::Fields() {
  return kFieldInfos;
}

std::variant<Expression, Expression::Problem> Expression::Parse(std::string_view text) {
  return ExpressionParser(text).Run();
}

bool Expression::Matches(const Subject& subject) const {
  return nodes_.empty() || Holds(nodes_.size() - 1, subject);
}

bool Expression::Holds(size_t node, const Subject& subject) const {
  const Node& of = nodes_[node];
  switch (of.kind) {
    case Kind::kAnd:
      return Holds(of.left, subject) && Holds(of.right, subject);
    case Kind::kOr:
      return Holds(of.left, subject) || Holds(of.right, subject);
    case Kind::kNot:
      return !Holds(of.left, subject);
    case Kind::kCompare:
      break;
  }
  return Compare(comparisons_[of.left], subject);
}

bool Expression::Fits(Op op, const FeedbackValue& value, const std::vector<FeedbackValue>& literals) {
  if (op == Op::kExists) return true;
  if (op == Op::kIn) return std::ranges::find(literals, value) != literals.end();
  const FeedbackValue& literal = literals.front();
  if (value.index() != literal.index()) return false;
  switch (op) {
    case Op::kEqual:
      return value == literal;
    case Op::kNotEqual:
      return value != literal;
    case Op::kLess:
      return value < literal;
    case Op::kLessEqual:
      return value <= literal;
    case Op::kGreater:
      return value > literal;
    case Op::kGreaterEqual:
      return value >= literal;
    case Op::kNotIn:
      return std::ranges::find(literals, value) == literals.end();
    case Op::kIn:
    case Op::kExists:
      break;
  }
  return false;
}

bool Expression::Compare(const Comparison& comparison, const Subject& subject) {
  if (comparison.field < kFieldInfos.size()) {
    const FeedbackValue value = ValueOf(comparison.field, subject);
    const auto* const number = std::get_if<double>(&value);
    if (number != nullptr && *number < 0) return false;  // it is not known
    return Fits(comparison.op, value, comparison.literals);
  }
  if (!subject.feedback) return false;
  return std::ranges::any_of(subject.feedback(), [&](const ledger::KeptFeedback& one) {
    return one.feedback.name == comparison.feedback &&
           Fits(comparison.op, one.feedback.value, comparison.literals);
  });
}

}  // namespace gateway::datasets
