// OutgoingRequest: the view of a request for the parts that send it, copy it, steer it, or learn from it.
//
// Refers into one exchange and its runtime; valid while the exchange has that runtime.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "gateway/request/client.h"
#include "gateway/request/identity.h"
#include "gateway/request/request_body.h"
#include "gateway/shard/shard.h"

namespace gateway {

struct OutgoingRequest {
  Shard& shard;
  const std::shared_ptr<const Runtime>& runtime;
  ModelId model_id;  // the asked model
  Client& client;
  const Identity& identity;
  const RequestBody& body;
  std::optional<int64_t> output_cap;  // most output tokens, set by the limits and the model

  const ModelRuntime& model() const { return runtime->model(model_id); }
  const router::Model& route() const { return runtime->routes().model(model_id); }
  // The session that the client names: x-session-id, or else the body's session, cache key or user; empty: none.
  std::string_view Session() const {
    for (const std::string_view name : {client.head().Find("x-session-id"), body.facts.session.view(),
                                        body.facts.prompt_cache_key.view(), body.facts.user.view()}) {
      if (!name.empty()) return name;
    }
    return {};
  }
};

}  // namespace gateway
