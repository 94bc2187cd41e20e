// Section `routing` of a model (how an endpoint is chosen, and the operator's rules) and section
// `routing_log` (which choices are recorded).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "router/routes/route_table.h"

namespace conf {
class Object;
}  // namespace conf

namespace gateway::config {

// A part of the requests goes to the endpoints of one track.
struct Canary {
  std::string track;
  double percent = 0;
  std::string header;       // a request that has it goes there, whatever the percentage; lower case
  std::string value;        // that the header must have; empty: any
  bool of_rollout = false;  // in force: not from the file
};

// The part of a model's requests that a new version has, while a rollout says so.
struct ShareOfVersion {
  std::string model;
  std::string version;  // the track of its replicas
  double percent = 0;

  friend bool operator==(const ShareOfVersion&, const ShareOfVersion&) = default;
};

// A session's requests go to one endpoint.
struct Sticky {
  conf::Duration ttl = std::chrono::minutes(10);  // from its last request
};

// Copies of requests go elsewhere too; their answers are compared and dropped.
struct Shadow {
  std::string model;  // either another model,
  std::string track;  // or endpoints of this one
  double percent = 0;
  uint32_t in_flight = 8;      // copies, of each thread
  uint64_t bytes = 256 << 10;  // of a request, and of an answer, that is copied
  conf::Duration timeout = std::chrono::minutes(2);
};

struct Routing {
  router::PolicyKind policy = router::PolicyKind::kCost;
  // Parameters of the policies of these names; only the active one reads its own.
  router::CostWeights cost;
  router::EppWeights epp;
  router::CacheAwareLimits cache_aware;
  router::HashLimits consistent_hash;
  std::vector<Canary> canaries;
  std::optional<Sticky> sticky;
  std::vector<Shadow> shadows;  // a request is copied to one of them at most
};

// Sampled decisions, in the state folder.
struct RoutingLog {
  double sample = 0.01;            // of the requests; 0: none
  uint64_t file_bytes = 16 << 20;  // a file is closed at this size
  uint32_t files = 4;              // kept, the newest included
};

void Bind(conf::Object& object, Routing& out);
void Bind(conf::Object& object, RoutingLog& out);

}  // namespace gateway::config
