// Span: what one request to a model leaves in a trace, in the names of OpenTelemetry's GenAI conventions, and
// its form in OTLP/HTTP JSON. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/telemetry/trace_context.h"

namespace gateway::telemetry {

// Empty texts and absent numbers are left out of what is sent.
struct Span {
  enum class Kind : uint8_t { kServer = 2, kClient = 3 };  // as OTLP numbers them

  TraceContext context;
  std::optional<SpanId> parent;
  Kind kind = Kind::kServer;
  conf::TimePoint start;
  conf::TimePoint end;

  std::string operation;       // gen_ai.operation.name: chat, text_completion, embeddings, …
  std::string request_model;   // gen_ai.request.model
  std::string response_model;  // gen_ai.response.model
  std::optional<int64_t> input_tokens;
  std::optional<int64_t> output_tokens;
  std::vector<std::string> finish_reasons;
  std::string server_address;
  std::optional<int64_t> server_port;
  std::optional<int64_t> status_code;                 // http.response.status_code
  std::string error_type;                             // error.type; set: the span's status is an error
  std::string tenant;                                 // tidegate.tenant
  std::string replica;                                // tidegate.replica
  std::string request_id;                             // tidegate.request_id
  std::optional<conf::Duration> queued;               // tidegate.queue.duration, seconds
  std::optional<conf::Duration> time_to_first_token;  // tidegate.time_to_first_token, seconds
  std::optional<int64_t> attempts;                    // tidegate.attempts

  // About what it takes in memory.
  size_t bytes() const;
};

// The body of POST /v1/traces. Bytes that are not UTF-8 become U+FFFD.
std::string RenderOtlp(std::span<const Span> spans, const std::string& service_name,
                       const std::string& service_instance);

}  // namespace gateway::telemetry
