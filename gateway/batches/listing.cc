#include "gateway/batches/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "conf/text.h"
#include "router/facts/api.h"

namespace gateway::batches {

using Json = nlohmann::ordered_json;

Result<Page> PageOf(std::string_view query, size_t usual, size_t most) {
  Page page{.limit = usual};
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const std::string_view name = pair.substr(0, pair.find('='));
    const std::optional<std::string> value =
        router::PercentDecode(pair.substr(std::min(pair.size(), name.size() + 1)));
    if (!value) return api::Make(api::Code::kInvalidValue, "the query cannot be read", std::string(name));
    if (name == "limit") {
      const std::optional<size_t> limit = conf::ReadNumber<size_t>(*value);
      if (!limit || *limit < 1 || *limit > most)
        return api::Make(api::Code::kInvalidValue, fmt::format("limit must be 1 to {}", most), "limit");
      page.limit = *limit;
    } else if (name == "after" || name == "after_id") {
      page.after = *value;
      page.after_name = name;
    } else if (name == "before_id") {
      page.before = *value;
    } else if (name == "order") {
      if (*value != "asc" && *value != "desc")
        return api::Make(api::Code::kInvalidValue, "order must be asc or desc", "order");
      page.ascending = *value == "asc";
    } else if (name == "purpose") {
      page.purpose = *value;
    }
  }
  return page;
}

void PlacesOfPages::Note(const ListPlace& place) {
  if (Find(place.id)) return;
  if (places_.size() == kMost) places_.pop_front();
  places_.push_back(place);
}

std::optional<ListPlace> PlacesOfPages::Find(std::string_view id) const {
  const auto found = std::ranges::find(places_, id, &ListPlace::id);
  return found == places_.end() ? std::nullopt : std::optional(*found);
}

Result<Json> ListOf(const std::vector<Listed>& all, const Page& page, PlacesOfPages& places) {
  // The first object that does not stand before `id`; none: its place is not known.
  const auto find = [&](const std::string& id) -> std::optional<std::vector<Listed>::const_iterator> {
    const auto found = std::ranges::find_if(all, [&](const Listed& one) { return one.place.id == id; });
    if (found != all.end()) return found;
    const std::optional<ListPlace> place = places.Find(id);
    if (!place) return std::nullopt;
    return std::ranges::find_if(
        all, [&](const Listed& one) { return page.ascending ? one.place > *place : one.place < *place; });
  };
  const auto unknown = [](std::string_view id, std::string_view parameter) {
    return api::Make(
        api::Code::kInvalidValue,
        fmt::format("{} names {}, which is not in the list: begin the list again", parameter, id),
        std::string(parameter));
  };
  auto first = all.begin();
  auto end = all.end();
  if (!page.after.empty()) {
    const auto found = find(page.after);
    if (!found) return unknown(page.after, page.after_name);
    first = *found;
    if (first != all.end() && first->place.id == page.after) ++first;
  }
  const bool backwards = !page.before.empty();
  if (backwards) {
    const auto found = find(page.before);
    if (!found) return unknown(page.before, "before_id");
    end = std::max(first, *found);
  }
  const bool has_more = static_cast<size_t>(end - first) > page.limit;
  if (has_more && backwards) first = end - static_cast<ptrdiff_t>(page.limit);
  if (has_more && !backwards) end = first + static_cast<ptrdiff_t>(page.limit);
  Json data = Json::array();
  for (auto at = first; at != end; ++at) data.push_back(at->shown);
  if (has_more) places.Note(backwards ? first->place : (end - 1)->place);
  Json list{{"object", "list"}};
  list["first_id"] = data.empty() ? Json(nullptr) : Json(data.front()["id"]);
  list["last_id"] = data.empty() ? Json(nullptr) : Json(data.back()["id"]);
  list["has_more"] = has_more;
  list["data"] = std::move(data);
  return list;
}

}  // namespace gateway::batches
