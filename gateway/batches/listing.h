// One page of a list of files or batches, as OpenAI's and Anthropic's APIs have them.
//
// A page is asked for by the last object of the page before it. Clients delete objects while they list them, so that
// object may be gone by then: its place in the list is remembered.
#pragma once

#include <cstddef>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/batches/files.h"

namespace gateway::batches {

// The parameters of a list.
struct Page {
  size_t limit = 0;
  std::string after = {};
  std::string after_name = {};  // of its parameter, which the two APIs name differently
  std::string before = {};
  bool ascending = false;
  std::string purpose = {};
};

// Where an object stands in its list: by time, then by id.
struct ListPlace {
  conf::TimePoint created = {};
  std::string id = {};

  auto operator<=>(const ListPlace&) const = default;
};

struct Listed {
  ListPlace place;
  nlohmann::ordered_json shown;
};

// The places of the objects at the ends of the last pages. Thread: the owner's.
class PlacesOfPages {
 public:
  void Note(const ListPlace& place);
  std::optional<ListPlace> Find(std::string_view id) const;

 private:
  static constexpr size_t kMost = 1024;

  std::deque<ListPlace> places_;  // the newest last
};

// `query`: what stands behind the '?'. An error: a parameter that cannot be read.
Result<Page> PageOf(std::string_view query, size_t usual, size_t most);

// That page of `all`, the newest first or, with `ascending`, last. An error: the page stands behind or before an
// object that is neither in the list nor was at the end of a page.
Result<nlohmann::ordered_json> ListOf(const std::vector<Listed>& all, const Page& page,
                                      PlacesOfPages& places);

}  // namespace gateway::batches
