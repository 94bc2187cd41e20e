// LoRA adapters and the models that serve them: what they must agree on, and what an adapter takes from its
// base.
#pragma once

#include <vector>

#include "conf/document.h"
#include "gateway/config/model.h"

namespace gateway::config {

// Reports to the document at the value that is wrong.
void CheckAdapters(conf::Document& document, const std::vector<Model>& models);

// Copies to each adapter how its base chooses endpoints and handles failures, and, where the adapter gives
// none, price, context and max_output_tokens. The models have passed CheckAdapters.
void TakeFromBases(std::vector<Model>& models);

}  // namespace gateway::config
