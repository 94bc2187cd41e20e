// What a call brings, read strictly: unknown members and parameters are refused with a suggestion, repeated
// ones too, and every problem is reported at once. Pure.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "gateway/admin/answers/answer_fields.h"
#include "gateway/admin/route.h"

namespace gateway::admin {

inline constexpr size_t kMaxBody = 256 * 1024;

// `text` is the part of the target after '?'. Where strangers add parameters of their own, those are passed over.
enum class Unknowns : uint8_t { kRefused, kPassedOver };
std::vector<FieldProblem> ReadQuery(std::string_view text, std::span<const Member> members, Unknowns unknowns,
                                    std::map<std::string, std::string, std::less<>>& query);

// An absent body is an empty object.
std::vector<FieldProblem> ReadBody(std::string_view text, std::span<const Member> members,
                                   nlohmann::json& body);

// A page of a list, by the parameters `limit` and `after`.
inline constexpr size_t kDefaultPage = 100;
inline constexpr size_t kMaxPage = 1000;
inline constexpr Member kLimit{"limit", Type::kWhole, false,
                               "How many at most: 1 to 1000, 100 when not given"};
inline constexpr Member kAfter{"after", Type::kText, false, "`next` of the previous page"};
inline constexpr Member kAfterRow{"after", Type::kWhole, false, "`next` of the previous page"};

struct Page {
  size_t begin = 0;
  size_t end = 0;
};

// What stands after `after`, which names an entry by its key; or why not.
std::variant<Page, Answer> PageOf(const std::vector<std::string_view>& keys, const Call& call);

template <class T>
Answer ListPage(std::vector<T> all, std::string T::* key, const Call& call) {
  std::vector<std::string_view> keys;
  keys.reserve(all.size());
  for (const T& entry : all) keys.push_back(entry.*key);
  const std::variant<Page, Answer> page = PageOf(keys, call);
  if (const Answer* const refused = std::get_if<Answer>(&page)) return *refused;
  const auto [begin, end] = std::get<Page>(page);
  answers::ListOf<T> list;
  list.has_more = end < all.size();
  if (list.has_more) list.next = all[end - 1].*key;
  all.resize(end);
  all.erase(all.begin(), all.begin() + static_cast<ptrdiff_t>(begin));
  list.data = std::move(all);
  return Json(list);
}

}  // namespace gateway::admin
