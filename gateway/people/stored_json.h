// Reads a stored object from JSON by the fields that it lists (conf/fields.h).
#pragma once

#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "conf/json_reader.h"
#include "conf/text.h"

namespace gateway {

// DataLoss names the first thing that is wrong; `what` is what a message calls the object.
template <class T>
absl::StatusOr<T> ReadStored(std::string_view what, std::string_view text) {
  conf::JsonFaults faults;
  T out;
  if (const std::optional<conf::Json> json = conf::ParseJson(text, faults))
    conf::ReadJson(*json, out, faults);
  if (faults.count() == 0) return out;
  const conf::JsonFaults::Fault& first = faults.faults().front();
  return absl::DataLossError(conf::Abseil(fmt::format("{}{}: {}", what, first.pointer, first.message)));
}

}  // namespace gateway
