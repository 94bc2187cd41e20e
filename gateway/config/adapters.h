// LoRA adapters and the models that serve them: the checks between the two, and the settings that an adapter
// takes from its base.
#pragma once

#include <vector>

#include "conf/document.h"
#include "gateway/config/model.h"

namespace gateway::config {

// Reports to the document at the value that is wrong.
void CheckAdapters(conf::Document& document, const std::vector<Model>& models);

// Copies to each adapter the base's settings of routing and failures, and its price, context and
// max_output_tokens where the adapter has none. The models have passed CheckAdapters.
void TakeFromBases(std::vector<Model>& models);

}  // namespace gateway::config
