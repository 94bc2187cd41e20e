// Identity: a request's id, the API that it calls, and its tenant.
//
// Part of the exchange. The views are of the client's head, which lives as long as the exchange.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/api/error.h"
#include "gateway/people/principal.h"
#include "gateway/request/on_behalf.h"
#include "gateway/telemetry/trace_context.h"
#include "router/facts/api.h"

namespace gateway {

struct Identity {
  Identity() = default;
  Identity(const Identity&) = delete;  // `id` is a view of `id_text`
  Identity& operator=(const Identity&) = delete;

  std::array<char, 36> id_text;
  std::string_view id;                 // the gateway's id: x-request-id of the answer
  std::string_view client_request_id;  // the client's id: x-request-id of the request
  std::string client_address;
  std::string_view asked_priority;                // x-priority; empty: the key's priority
  std::optional<telemetry::TraceContext> trace;   // the gateway's span; none: tracing is off
  std::optional<telemetry::TraceContext> caller;  // the client's span

  OnBehalf* on_behalf = nullptr;  // set if the gateway sent the request itself

  // Set by `route`:
  const router::ApiSpec* spec = nullptr;
  std::string path_rest;         // the rest of the path behind models, files or batches
  bool anthropic_lists = false;  // the list of models has Anthropic's form

  // Set by `authenticate`:
  PrincipalRef principal;

  api::Protocol protocol() const {
    const bool anthropic = anthropic_lists || (spec && spec->protocol == router::Protocol::kAnthropic);
    return anthropic ? api::Protocol::kAnthropic : api::Protocol::kOpenAi;
  }
  // The band in which the request waits: the one that it asks for, or otherwise its key's.
  std::string_view Priority() const { return asked_priority.empty() ? principal->priority : asked_priority; }
  // A line of a batch waits behind all others, whatever its key's priority.
  bool is_of_batch() const { return on_behalf != nullptr && on_behalf->of_batch; }
  // The salt of the tenant's cache domain; empty if all tenants share one domain.
  std::string_view cache_salt() const {
    return principal ? std::string_view(principal->cache_salt) : std::string_view();
  }
  std::string_view tenant() const {
    return principal ? std::string_view(principal->tenant) : std::string_view();
  }
};

}  // namespace gateway
