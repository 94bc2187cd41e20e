// Weights: the section `weights` of a model's policy, where its weights come from and how they are kept on nodes;
// and `scaling.weights`, the store of each node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/secret.h"
#include "conf/time.h"
#include "gateway/config/types.h"
#include "plugins/weights/order.h"
#include "scheduler/autoscale/cron.h"

namespace conf {
class Object;
}

namespace gateway::config {

struct HttpWeights {
  Url url;
  std::string listing;  // empty: the URL is the one file
  conf::Secret token;
};

struct HuggingFaceWeights {
  Url url{.scheme = "https", .host = "huggingface.co", .port = 443, .path = {}};
  std::string repository;
  std::string revision;
  conf::Secret token;
  std::vector<std::string> include;
};

struct OciWeights {
  Url registry;
  std::string repository;
  std::string username;
  conf::Secret password;
};

struct S3Weights {
  Url endpoint;
  std::string bucket;
  std::string prefix;
  std::string listing;
  std::string region = "us-east-1";
  conf::Secret access_key;
  conf::Secret secret_key;
  conf::Secret session_token;
};

// Times at which nodes fetch weights that they may need.
struct PrefetchTime {
  scheduler::autoscale::Cron cron{};
  std::string timezone = "UTC";
  absl::TimeZone zone{};
};

// Weights are brought to nodes before a replica is placed there.
struct Prefetch {
  uint32_t nodes = 1;  // that hold them, at least; those where replicas would go first
  std::vector<PrefetchTime> at;
  bool on_demand = false;  // also once more replicas are wanted than there is room for
  bool forecast =
      false;  // also ahead of the time of the day at which more replicas were wanted; then on as many nodes
};

// The engine's compiled kernels are kept on the node, for each engine version, model and kind of device.
struct CompileCache {
  std::string version;  // of the engine; empty: the image says it
};

struct Weights {
  std::optional<HttpWeights> http;  // one of these five
  std::optional<HuggingFaceWeights> huggingface;
  std::optional<OciWeights> oci;
  std::optional<S3Weights> s3;
  std::string path;
  std::string digest;  // "sha256:HEX"
  bool pinned = false;
  conf::Duration timeout = std::chrono::hours(1);  // of a fetch
  std::optional<Prefetch> prefetch;
  std::optional<CompileCache> compile_cache;
};

// Begins the variable that tells a job the folder of a data set.
inline constexpr std::string_view kDataVariable = "TIDEGATE_DATA_";

// A data set that jobs may name: it is kept on nodes as weights are.
struct DataSet {
  std::string name;
  Weights from;                      // its source and digest, and whether it is pinned
  std::vector<std::string> tenants;  // globs of the paths of those whose jobs may name it; empty: all jobs
};

// Other nodes' stores, as tidegate weights serve offers them: a fetch asks them before the source.
struct NeighbourServers {
  std::string url;     // with {node} or {address}: of each node; without: of one server that all nodes ask
  conf::Secret token;  // of a Bearer
  std::string ca;      // a file of each node; empty: as for the sources
  uint32_t most = 3;   // nodes that one fetch may ask
};

struct WeightsStore {
  std::string store;  // a folder of each node
  uint64_t size = 0;  // that it may hold; 0: no limit but the disk
  uint32_t connections = 4;
  std::string ca;       // a file of each node, with the authorities of the sources; empty: the system's
  std::string program;  // tidegate on the nodes; empty: the launcher's own, or the image's
  std::string image;    // of a pod's step; Kubernetes only
  std::optional<NeighbourServers> neighbours;  // absent: none is asked
  std::string claim;  // of the volume that is the store in pods; empty: the node's folder; Kubernetes only
};

void Bind(conf::Object& object, Weights& out);
void Bind(conf::Object& object, DataSet& out);
void Bind(conf::Object& object, WeightsStore& out);

// Whether a job of the tenant with that path (empty: of none) may name the data set.
bool MayName(const DataSet& data, std::string_view tenant);

plugins::weights::Source SourceOf(const Weights& weights);

// The key of the compile cache of that engine ("vllm"), its image (which may be empty) and kind of devices;
// empty: none is kept.
std::string CacheKeyOf(const Weights& weights, std::string_view engine, std::string_view image,
                       std::string_view kind);

}  // namespace gateway::config
