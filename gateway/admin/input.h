// What a call brings, read strictly: unknown members and parameters are refused with a suggestion, repeated
// ones too, and every problem is told at once. Pure.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/admin/route.h"

namespace gateway::admin {

inline constexpr size_t kMaxBody = 256 * 1024;

// `text` is the part of the target after '?'.
std::vector<FieldProblem> ReadQuery(std::string_view text, std::span<const Member> members,
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

// {"object":"list","data":[…],"has_more":…,"next":…} of what stands after `after`, which names an entry by
// its member `key`.
Answer ListPage(const std::vector<nlohmann::ordered_json>& all, const char* key, const Call& call);

}  // namespace gateway::admin
