// One page of a list of files or batches, as OpenAI's and Anthropic's APIs have them.
//
// Pure, any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/batches/files.h"

namespace gateway::batches {

// The parameters of a list.
struct Page {
  size_t limit = 0;
  std::string after = {};
  std::string before = {};
  bool ascending = false;
  std::string purpose = {};
};

// `query`: what stands behind the '?'. An error: a parameter that cannot be read.
Result<Page> PageOf(std::string_view query, size_t usual, size_t most);

// That page of `all`, which are in the order of the list, each with its id.
nlohmann::ordered_json ListOf(const std::vector<nlohmann::ordered_json>& all, const Page& page);

}  // namespace gateway::batches
