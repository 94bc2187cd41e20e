// The answers of `/v1/models` and `/v1/models/{id}`, in OpenAI's form or, for clients that send
// `anthropic-version`, in Anthropic's. Pure; the caller has already left out what the key may not use.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "gateway/api/error.h"

namespace gateway::api {

struct ModelCard {
  std::string_view id;
  std::string_view owned_by = "tidegate";
  conf::TimePoint created;
  std::string_view root = {};  // OpenAI's form, as vLLM has it: the model behind an adapter's name; empty: id
  std::string_view parent = {};  // an adapter's base; empty: it is no adapter
};

std::string RenderModels(Protocol protocol, std::span<const ModelCard> models);
std::string RenderModel(Protocol protocol, const ModelCard& model);

}  // namespace gateway::api
