// W3C Trace Context (level 1): which trace a request belongs to, as `traceparent` and `tracestate` carry it,
// and whether to sample it. Plain values; the functions may be called from every thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gateway::telemetry {

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

struct TraceContext {
  TraceId trace_id{};
  SpanId span_id{};  // of the caller when parsed, of our span when rendered
  bool sampled = false;
  std::string state;  // tracestate, passed on as it came
};

// Nothing when `traceparent` is not exactly what the specification wants: lower-case hex, no zero ids,
// version 00 of 55 bytes, a later version at least that long, not ff. A malformed or oversized `tracestate`
// is dropped alone; several header fields are to be joined with commas.
std::optional<TraceContext> ParseTraceContext(std::string_view traceparent, std::string_view tracestate);

// `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`
std::string RenderTraceparent(const TraceContext& context);

// Random, not zero.
TraceId NewTraceId();
SpanId NewSpanId();

// The caller's decision where there is a caller, else a ratio of all traces that every service that knows the
// trace id decides alike: its last 8 bytes, as OpenTelemetry's TraceIdRatioBased compares them.
class Sampler {
 public:
  explicit Sampler(double ratio);

  bool Sample(const std::optional<TraceContext>& parent, const TraceId& trace_id) const {
    return parent ? parent->sampled : SampleRoot(trace_id);
  }
  bool SampleRoot(const TraceId& trace_id) const;

 private:
  uint64_t below_;  // of 2^63
};

// Our span's place in the trace: the parent's trace or a new one, with the sampling decision made.
TraceContext StartTrace(const std::optional<TraceContext>& parent, const Sampler& sampler);

}  // namespace gateway::telemetry
