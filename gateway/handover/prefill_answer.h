// What a prefill replica's answer says for the replica that is to go on with the prompt.
//
// Pure. The text is checked against JSON's grammar, so that what is taken out of it can stand in another
// body.
#pragma once

#include <optional>
#include <string_view>

#include "gateway/api/usage.h"

namespace gateway::handover {

struct PrefillAnswer {
  std::string_view params;  // kv_transfer_params, an object, as it stands in `body`; empty: there are none
  std::optional<api::Usage> usage;
};

// Nothing where `body` is not one JSON object.
std::optional<PrefillAnswer> ReadPrefillAnswer(std::string_view body);

}  // namespace gateway::handover
