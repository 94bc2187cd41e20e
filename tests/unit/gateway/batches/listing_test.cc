#include "gateway/batches/listing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace gateway::batches {
namespace {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

// Objects with these names, each a second younger than the one before it, the newest first.
std::vector<Listed> ListWith(const Ids& ids) {
  std::vector<Listed> all;
  conf::TimePoint created{1000s};
  for (const std::string& id : ids) all.push_back({{created += 1s, id}, {{"id", id}}});
  std::ranges::reverse(all);
  return all;
}

void Remove(std::vector<Listed>& all, std::string_view id) {
  std::erase_if(all, [&](const Listed& one) { return one.place.id == id; });
}

Ids IdsOf(const Result<nlohmann::ordered_json>& list) {
  Ids ids;
  for (const auto& one : std::get<nlohmann::ordered_json>(list)["data"]) ids.push_back(one["id"]);
  return ids;
}

TEST(Listing, ContinuesBehindAnObjectThatWasDeletedMeanwhile) {
  std::vector<Listed> all = ListWith({"a", "b", "c", "d", "e"});
  PlacesOfPages places;
  EXPECT_EQ(IdsOf(ListOf(all, {.limit = 2}, places)), (Ids{"e", "d"}));
  Remove(all, "e");
  Remove(all, "d");
  EXPECT_EQ(IdsOf(ListOf(all, {.limit = 2, .after = "d"}, places)), (Ids{"c", "b"}));
  Remove(all, "b");
  EXPECT_EQ(IdsOf(ListOf(all, {.limit = 2, .after = "b"}, places)), (Ids{"a"}));
}

TEST(Listing, ContinuesBehindADeletedObjectInTheOtherOrderAndBackwards) {
  std::vector<Listed> all = ListWith({"a", "b", "c", "d", "e"});
  PlacesOfPages places;
  EXPECT_EQ(IdsOf(ListOf(all, {.limit = 2, .before = "a"}, places)), (Ids{"c", "b"}));
  Remove(all, "c");
  EXPECT_EQ(IdsOf(ListOf(all, {.limit = 2, .before = "c"}, places)), (Ids{"e", "d"}));
  std::ranges::reverse(all);
  EXPECT_EQ(IdsOf(ListOf(all, {.limit = 2, .ascending = true}, places)), (Ids{"a", "b"}));
  Remove(all, "b");
  EXPECT_EQ(IdsOf(ListOf(all, {.limit = 2, .after = "b", .ascending = true}, places)), (Ids{"d", "e"}));
}

TEST(Listing, RefusesAnObjectWhosePlaceIsNotKnown) {
  const std::vector<Listed> all = ListWith({"a", "b"});
  PlacesOfPages places;
  const auto list = ListOf(all, {.limit = 2, .after = "z", .after_name = "after_id"}, places);
  ASSERT_TRUE(std::holds_alternative<api::ApiError>(list));
  EXPECT_EQ(std::get<api::ApiError>(list).param, "after_id");
  EXPECT_TRUE(std::holds_alternative<api::ApiError>(ListOf(all, {.limit = 2, .before = "z"}, places)));
}

TEST(Listing, RemembersABoundedNumberOfPlaces) {
  PlacesOfPages places;
  for (int i = 0; i < 5000; ++i)
    places.Note({conf::TimePoint(std::chrono::seconds(i)), fmt::format("{}", i)});
  EXPECT_FALSE(places.Find("0"));
  EXPECT_TRUE(places.Find("4999"));
}

}  // namespace
}  // namespace gateway::batches
