#include "plugins/redaction/redaction.h"

// A text that a pattern takes longer for is refused. Boost's own bound is some seconds.
#define BOOST_REGEX_MAX_STATE_COUNT 20000000

#include <absl/strings/ascii.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/regex.hpp>
#include <stdexcept>
#include <utility>

#include "conf/text.h"

namespace plugins {
namespace {

struct BuiltIn {
  std::string_view name;
  const char* pattern;
};
constexpr std::array kBuiltIns = {
    // First: its lines would match other rules in part.
    BuiltIn{
        "private_key",
        R"(-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----[A-Za-z0-9+/=\s:,-]{0,16384}?-----END [A-Z ]{0,32}PRIVATE KEY-----)"},
    BuiltIn{"email", R"([A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})"},
    // The keys of this gateway, OpenAI, Anthropic, GitHub, GitLab, Slack, AWS, Google, Hugging Face; tokens of JWT;
    // and what follows "Bearer".
    BuiltIn{
        "api_key",
        R"(\b(?:tg-[A-Za-z0-9_-]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{20,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}|[Bb]earer\s+[A-Za-z0-9._~+/-]{16,}=*))"},
    BuiltIn{"card_number", R"(\b(?:[0-9][ -]?){12,18}[0-9]\b)"},
};

// The check digit of card numbers (ISO/IEC 7812).
bool PassesLuhn(std::string_view text) {
  int sum = 0;
  bool twice = false;
  for (size_t i = text.size(); i-- > 0;) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(text[i]))) continue;
    const int digit = text[i] - '0';
    sum += twice ? digit * 2 - (digit > 4 ? 9 : 0) : digit;
    twice = !twice;
  }
  return sum % 10 == 0;
}

}  // namespace

struct Redaction::Rule {
  std::string name;
  boost::regex pattern;
  bool is_card = false;
};

Redaction::Redaction() = default;
Redaction::Redaction(Redaction&&) noexcept = default;
Redaction& Redaction::operator=(Redaction&&) noexcept = default;
Redaction::~Redaction() = default;

std::vector<std::string_view> Redaction::BuiltIns() {
  std::vector<std::string_view> names;
  for (const BuiltIn& rule : kBuiltIns) names.push_back(rule.name);
  return names;
}

std::string Redaction::WhyWrong(const RedactionPattern& pattern) {
  const auto fits = [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '_';
  };
  if (pattern.name.empty() || pattern.name.size() > 32 || !std::ranges::all_of(pattern.name, fits))
    return fmt::format("the name \"{}\" must be 1 to 32 lower-case letters, digits and '_'",
                       pattern.name.substr(0, 64));
  if (std::ranges::find(kBuiltIns, std::string_view(pattern.name), &BuiltIn::name) != kBuiltIns.end())
    return fmt::format("{} is the name of a built-in rule", pattern.name);
  if (pattern.pattern.empty() || pattern.pattern.size() > kMaxPattern)
    return fmt::format("the pattern {} must have 1 to {} bytes", pattern.name, kMaxPattern);
  try {
    const boost::regex read(pattern.pattern);
    if (boost::regex_match(std::string(), read))
      return fmt::format("the pattern {} matches the empty text, so it would match everywhere", pattern.name);
  } catch (const std::runtime_error& error) {
    return fmt::format("the pattern {} is not a regular expression: {}", pattern.name, error.what());
  }
  return {};
}

absl::StatusOr<Redaction> Redaction::Make(const std::vector<RedactionPattern>& patterns) {
  if (patterns.size() > kMaxPatterns)
    return absl::InvalidArgumentError(
        conf::Abseil(fmt::format("there are more than {} patterns", kMaxPatterns)));
  Redaction out;
  for (const BuiltIn& rule : kBuiltIns)
    out.rules_.push_back({std::string(rule.name), boost::regex(rule.pattern), rule.name == "card_number"});
  for (const RedactionPattern& pattern : patterns) {
    if (const std::string why = WhyWrong(pattern); !why.empty()) return absl::InvalidArgumentError(why);
    out.rules_.push_back({pattern.name, boost::regex(pattern.pattern), false});
  }
  return out;
}

std::vector<std::string> Redaction::names() const {
  std::vector<std::string> names;
  for (const Rule& rule : rules_) names.push_back(rule.name);
  return names;
}

bool Redaction::Apply(std::string& text, Counts& counts) const {
  for (const Rule& rule : rules_) {
    try {
      std::string out;
      auto at = text.cbegin();
      bool found = false;
      for (boost::sregex_iterator match(text.begin(), text.end(), rule.pattern), end; match != end; ++match) {
        if (match->length() == 0 || (rule.is_card && !PassesLuhn(match->str()))) continue;
        found = true;
        out.append(at, (*match)[0].first).append(fmt::format("[{}]", rule.name));
        at = (*match)[0].second;
        ++counts[rule.name];
      }
      if (!found) continue;
      out.append(at, text.cend());
      text = std::move(out);
    } catch (const std::runtime_error&) {
      return false;
    }
  }
  return true;
}

bool Redaction::Apply(nlohmann::ordered_json& tree, Counts& counts) const {
  if (tree.is_string()) {
    auto& text = tree.get_ref<std::string&>();
    return Apply(text, counts);
  }
  for (auto item = tree.begin(); tree.is_structured() && item != tree.end(); ++item) {
    const bool word = tree.is_object() && (item.key() == "role" || item.key() == "type");
    if (!word && !Apply(*item, counts)) return false;
  }
  return true;
}

}  // namespace plugins
