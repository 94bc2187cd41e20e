// The refusal of a change whose object others change all the time.
#pragma once

#include <absl/status/status.h>
#include <fmt/format.h>

#include <string_view>

#include "conf/text.h"

namespace gateway {

// Unavailable; `what` begins the sentence: "the grant", or an id.
inline absl::Status BeingChanged(std::string_view what) {
  return absl::UnavailableError(
      conf::Abseil(fmt::format("{} is being changed by others; nothing was changed, try again", what)));
}

}  // namespace gateway
