// Redaction: what is taken out of texts before they leave the gateway: e-mail addresses, API keys, private keys
// and card numbers, and what the configuration's patterns match. What a rule finds becomes "[NAME]".
//
// A pattern is a Perl regular expression (Boost.Regex). Its matching is bounded; a text that a pattern takes
// too long for is not redacted but refused, so that nothing leaves unchecked.
//
// Immutable once made; any thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace plugins {

struct RedactionPattern {
  std::string name;     // "customer"
  std::string pattern;  // "K-[0-9]{6}"
};

class Redaction {
 public:
  using Counts = std::map<std::string, uint64_t>;  // by rule

  static constexpr size_t kMaxPatterns = 32;
  static constexpr size_t kMaxPattern = 512;  // bytes
  static std::vector<std::string_view> BuiltIns();

  // All built-in rules, then the patterns. InvalidArgument: a pattern or its name is wrong; the message says how.
  static absl::StatusOr<Redaction> Make(const std::vector<RedactionPattern>& patterns);
  // The problem of a pattern or its name; empty: none.
  static std::string WhyWrong(const RedactionPattern& pattern);

  Redaction(Redaction&&) noexcept;
  Redaction& operator=(Redaction&&) noexcept;
  ~Redaction();

  // The names of its rules, in the order in which they are applied.
  std::vector<std::string> names() const;

  // Redacts the text in place. False: a pattern takes too long; the text must not be used.
  bool Apply(std::string& text, Counts& counts) const;
  // Redacts every text in a tree, except the values of members that name roles and types.
  bool Apply(nlohmann::ordered_json& tree, Counts& counts) const;

 private:
  struct Rule;
  Redaction();
  std::vector<Rule> rules_;
};

}  // namespace plugins
