// PrefillAnswer: the part of a prefill replica's answer for the replica that continues with the prompt.
//
// Pure. The text is checked against JSON's grammar, so that a part of it can be copied into another body.
#pragma once

#include <optional>
#include <string_view>

#include "gateway/api/usage.h"

namespace gateway {

struct PrefillAnswer {
  std::string_view params;  // the object kv_transfer_params, a view into `body`; empty: missing
  std::optional<api::Usage> usage;
};

// None if `body` is not one JSON object.
std::optional<PrefillAnswer> ReadPrefillAnswer(std::string_view body);

}  // namespace gateway
