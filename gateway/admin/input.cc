#include "gateway/admin/input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "conf/text.h"
#include "plugins/auth/strict_json.h"
#include "router/facts/api.h"

namespace gateway::admin {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

const Member* Find(std::span<const Member> members, std::string_view name) {
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const Member& member) { return member.name == name; });
  return found == members.end() ? nullptr : &*found;
}

std::string Unknown(std::string_view what, std::string_view name, std::span<const Member> members) {
  std::vector<std::string_view> names;
  std::string all;
  for (const Member& member : members) {
    names.push_back(member.name);
    all.append(all.empty() ? "" : ", ").append(member.name);
  }
  std::string hint = conf::DidYouMean(name, names);
  if (hint.empty()) hint = all.empty() ? "; none is known here" : "; known: " + all;
  return fmt::format("unknown {}{}", what, hint);
}

bool IsWhole(std::string_view text) {
  return conf::ReadNumber<uint64_t>(text).has_value();
}

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool IsTexts(const json& value) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const json& v) { return v.is_string(); });
}

std::string WrongType(Type type, const json& value) {
  switch (type) {
    case Type::kText:
      return value.is_string() ? "" : "must be a string";
    case Type::kTexts:
      return IsTexts(value) ? "" : "must be a list of strings";
    case Type::kWhole:
      return value.is_number_unsigned() ? "" : "must be a whole number";
    case Type::kObject:
      return value.is_object() ? "" : "must be an object";
  }
  return "";
}

}  // namespace

std::vector<FieldProblem> ReadQuery(std::string_view text, std::span<const Member> members, Unknowns unknowns,
                                    std::map<std::string, std::string, std::less<>>& query) {
  std::vector<FieldProblem> problems;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(pair.size() + 1, text.size()));
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    const auto name = router::PercentDecode(pair.substr(0, equals));
    const auto value =
        router::PercentDecode(equals < pair.size() ? pair.substr(equals + 1) : std::string_view());
    if (!name || !value) {
      problems.push_back({"", "the query is not percent-encoded text"});
      continue;
    }
    const Member* member = Find(members, *name);
    if (member == nullptr) {
      if (unknowns == Unknowns::kRefused) problems.push_back({*name, Unknown("parameter", *name, members)});
    } else if (member->type == Type::kWhole && !IsWhole(*value)) {
      problems.push_back({*name, fmt::format("\"{}\" is {}", *value,
                                             IsDigits(*value) ? "too large" : "not a whole number")});
    } else if (!member->words.empty() && !value->empty() &&
               std::ranges::find(member->words, *value) == member->words.end()) {
      problems.push_back(
          {*name, fmt::format("\"{}\" must be one of {}", *value, fmt::join(member->words, ", "))});
    } else if (!query.emplace(*name, *value).second) {
      problems.push_back({*name, "is given twice"});
    }
  }
  for (const Member& member : members) {
    if (member.required && !query.contains(member.name))
      problems.push_back({std::string(member.name), "is missing"});
  }
  return problems;
}

std::vector<FieldProblem> ReadBody(std::string_view text, std::span<const Member> members, json& body) {
  std::vector<FieldProblem> problems;
  body = json::object();
  if (!text.empty()) {
    auto parsed = plugins::auth::ParseStrictObject(text);
    if (!parsed.ok()) return {{"", fmt::format("the body {}", conf::Std(parsed.status().message()))}};
    body = *std::move(parsed);
  }
  for (const auto& [name, value] : body.items()) {
    const Member* member = Find(members, name);
    if (member == nullptr) {
      problems.push_back({name, Unknown("member", name, members)});
    } else if (std::string wrong = WrongType(member->type, value); !wrong.empty()) {
      problems.push_back({name, std::move(wrong)});
    }
  }
  for (const Member& member : members) {
    if (member.required && !body.contains(std::string(member.name))) {
      problems.push_back({std::string(member.name), "is missing"});
    }
  }
  return problems;
}

std::string Call::Query(std::string_view name) const {
  const auto found = query.find(name);
  return found == query.end() ? std::string() : found->second;
}

std::string Call::Text(const char* name) const {
  const auto found = body.find(name);
  return found == body.end() ? std::string() : found->get<std::string>();
}

std::vector<std::string> Call::Texts(const char* name) const {
  const auto found = body.find(name);
  return found == body.end() ? std::vector<std::string>() : found->get<std::vector<std::string>>();
}

std::variant<Page, Answer> PageOf(const std::vector<std::string_view>& keys, const Call& call) {
  size_t limit = kDefaultPage;
  if (const std::string given = call.Query("limit"); !given.empty()) {
    std::from_chars(given.data(), given.data() + given.size(), limit);
    if (limit < 1 || limit > kMaxPage) {
      return Refuse(api::Code::kInvalidValue,
                    {{"limit", fmt::format("{} is not from 1 to {}", given, kMaxPage)}}, call.request_id);
    }
  }
  auto from = keys.begin();
  if (const std::string after = call.Query("after"); !after.empty()) {
    from = std::ranges::find(keys, after);
    if (from == keys.end()) {
      return Refuse(api::Code::kInvalidValue,
                    {{"after", fmt::format("\"{}\" is not in the list (any more)", after)}}, call.request_id);
    }
    ++from;
  }
  const auto begin = static_cast<size_t>(from - keys.begin());
  return Page{begin, begin + std::min(limit, keys.size() - begin)};
}

}  // namespace gateway::admin
