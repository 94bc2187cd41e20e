// A store as a text, to move it between backends or to keep it: one line of JSON per object, and a sum at the
// end. It has the store's secrets.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/store/store.h"

namespace gateway {

struct StateCopy {
  uint64_t number = 0;  // of the last change that the objects show
  std::vector<store::Object> objects;
};

std::string WriteStateCopy(const StateCopy& copy);

// DataLoss: the text is not whole, or was changed; InvalidArgument: it is something else.
absl::StatusOr<StateCopy> ReadStateCopy(std::string_view text);

// What makes a store have the copy's objects instead of those that it has. `gateway`: the one that the store's
// view has, if it is shared; objects of one gateway that name none become its own, and the other way round.
std::vector<store::Write> WritesOf(const StateCopy& copy, const std::vector<store::Object>& stored,
                                   const std::string& gateway, bool shared);

}  // namespace gateway
