// Answers of the admin API about the requests that wait, and of those that were answered of late.
#pragma once

#include "gateway/admin/answers/answer_fields.h"

namespace gateway::admin::answers {

struct LoggedRoute {
  static constexpr std::string_view kSchema = "LoggedRoute";

  std::string request = {};
  std::string time = {};
  conf::RawJson line = {};  // of the routing log
};

template <class O>
constexpr void Bind(O& o, LoggedRoute& route) {
  o.Required("request", route.request);
  o.Required("time", route.time);
  o.Required("line", route.line);
}

struct Band {
  static constexpr std::string_view kSchema = "Band";

  std::string name;
  double reserved = 0;  // share of the queue
  uint64_t waiting = 0;
  uint64_t bytes = 0;
  int64_t oldest_ms = 0;
};

template <class O>
constexpr void Bind(O& o, Band& band) {
  o.Required("name", band.name);
  o.Required("reserved", band.reserved);
  o.Required("waiting", band.waiting);
  o.Required("bytes", band.bytes);
  o.Required("oldest_ms", band.oldest_ms);
}

struct Waiting {
  static constexpr std::string_view kSchema = "Waiting";

  std::string request_id;
  std::string tenant;
  std::string band;
  uint64_t ahead = 0;  // requests that go first, about
  int64_t waited_ms = 0;
  std::optional<int64_t> expected_wait_ms;
  std::string reason;
};

template <class O>
constexpr void Bind(O& o, Waiting& waiting) {
  o.Required("request_id", waiting.request_id);
  o.Required("tenant", waiting.tenant);
  o.Required("band", waiting.band);
  o.Required("ahead", waiting.ahead);
  o.Required("waited_ms", waiting.waited_ms);
  o.Required("expected_wait_ms", waiting.expected_wait_ms);
  o.Required("reason", waiting.reason);
}

struct Queue {
  static constexpr std::string_view kSchema = "Queue";

  std::string model;
  bool enabled = false;
  uint64_t waiting = 0;
  uint64_t bytes = 0;
  uint64_t max_requests = 0;
  uint64_t max_bytes = 0;
  std::optional<int64_t> expected_wait_ms;
  double drain_per_second = 0;
  uint64_t replicas = 0;
  uint64_t replicas_with_room = 0;
  std::vector<Band> bands;
  std::vector<Waiting> requests;
};

template <class O>
constexpr void Bind(O& o, Queue& queue) {
  o.Required("model", queue.model);
  o.Required("enabled", queue.enabled);
  o.Required("waiting", queue.waiting);
  o.Required("bytes", queue.bytes);
  o.Required("max_requests", queue.max_requests);
  o.Required("max_bytes", queue.max_bytes);
  o.Required("expected_wait_ms", queue.expected_wait_ms);
  o.Required("drain_per_second", queue.drain_per_second);
  o.Required("replicas", queue.replicas);
  o.Required("replicas_with_room", queue.replicas_with_room);
  o.Required("bands", queue.bands);
  o.Required("requests", queue.requests);
}

struct Quantiles {
  static constexpr std::string_view kSchema = "Quantiles";

  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};

template <class O>
constexpr void Bind(O& o, Quantiles& quantiles) {
  o.Required("p50", quantiles.p50);
  o.Required("p90", quantiles.p90);
  o.Required("p99", quantiles.p99);
}

struct TrafficOfClass {
  static constexpr std::string_view kSchema = "TrafficOfClass";

  std::string name;
  double requests_per_second = 0;
  double prompt_tokens_per_second = 0;
  double refusals_per_second = 0;
  std::optional<Quantiles> first_token_ms;
  std::optional<Quantiles> inter_token_ms;
};

template <class O>
constexpr void Bind(O& o, TrafficOfClass& of) {
  o.Required("class", of.name);
  o.Required("requests_per_second", of.requests_per_second);
  o.Required("prompt_tokens_per_second", of.prompt_tokens_per_second);
  o.Required("refusals_per_second", of.refusals_per_second);
  o.Required("first_token_ms", of.first_token_ms);
  o.Required("inter_token_ms", of.inter_token_ms);
}

struct Traffic {
  static constexpr std::string_view kSchema = "Traffic";

  std::string model;
  double window_s = 0;
  double requests_per_second = 0;
  double errors_per_second = 0;
  double output_tokens_per_second = 0;
  uint64_t outstanding_requests = 0;
  uint64_t waiting = 0;
  std::optional<Quantiles> first_token_ms;
  std::optional<Quantiles> inter_token_ms;
  std::vector<TrafficOfClass> classes;
};

template <class O>
constexpr void Bind(O& o, Traffic& traffic) {
  o.Required("model", traffic.model);
  o.Required("window_s", traffic.window_s);
  o.Required("requests_per_second", traffic.requests_per_second);
  o.Required("errors_per_second", traffic.errors_per_second);
  o.Required("output_tokens_per_second", traffic.output_tokens_per_second);
  o.Required("outstanding_requests", traffic.outstanding_requests);
  o.Required("waiting", traffic.waiting);
  o.Required("first_token_ms", traffic.first_token_ms);
  o.Required("inter_token_ms", traffic.inter_token_ms);
  o.Required("classes", traffic.classes);
}

}  // namespace gateway::admin::answers
