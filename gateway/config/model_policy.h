// The policy file of one model, as in conf/policies/scaling: how many replicas there should be, what each
// needs, and how one is started and ended.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/secret.h"
#include "conf/sources.h"
#include "conf/time.h"
#include "gateway/config/device_need.h"
#include "gateway/config/model.h"
#include "gateway/config/placing.h"
#include "gateway/config/pods.h"
#include "gateway/config/scale_target.h"
#include "gateway/config/weights.h"
#include "router/health/rollout_judgement.h"
#include "scheduler/autoscale/batch_replicas.h"
#include "scheduler/autoscale/policy.h"
#include "scheduler/io/loaded.h"
#include "scheduler/work.h"

namespace conf {
class Value;
class Writer;
}  // namespace conf

namespace gateway::config {

// Priorities for the planner, when not all workloads have room.
enum class Rank : int32_t { kBatch = 0, kNormal = 100, kProduction = 1'000, kCritical = 10'000 };

// The kinds of work that may have to make room for a replica. Replicas of other models never do.
enum class Victim : uint8_t { kTraining, kBatch, kNotebook };

// Where one replica runs: a gang of members, of which the first leads and serves. Devices, cores and memory
// are per member.
struct Placement {
  uint32_t members = 1;
  scheduler::Topology topology;     // of the members of one replica
  std::vector<DeviceNeed> devices;  // any of these, in order of preference; empty: none is needed
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
  Rank priority = Rank::kProduction;
  Placing placing;  // its spread: of the model's replicas, so that one fault hits few of them
  std::vector<Victim> may_preempt = {Victim::kTraining, Victim::kBatch, Victim::kNotebook};
  std::string queue;  // a leaf of the planner's; empty: its first
};

// Whether a replica's engine demands a key of its callers, which Tidegate makes for each replica.
enum class ReplicaKey : uint8_t { kGenerated, kNone };

struct ReadyCheck {
  std::string path = "/health";  // answers below 300 once the replica can take requests
  conf::Duration timeout = std::chrono::minutes(10);
  bool token = false;  // the gateway asks for one token before its callers do
};

// How one replica is started and ended. In commands and in the environment, the placeholders of
// plugins/launchers/placeholders.h are replaced.
struct ReplicaTemplate {
  Engine engine = Engine::kVllm;
  std::string image;  // of its pods, with Kubernetes
  PodPiece pod;       // likewise
  std::vector<std::string> command;
  std::vector<std::string> worker_command;  // of the members that do not lead; empty: the command
  std::map<std::string, std::string> env;
  std::map<std::string, conf::Secret> secret_env;
  ReplicaKey api_key = ReplicaKey::kGenerated;  // kNone of an engine that cannot demand one
  std::optional<ClientTls> tls;                 // what the gateway expects of its certificate; absent: no TLS
  std::string directory;                        // where it runs; empty: the launcher's own
  std::string model;   // the name that the engine knows; when not given: the model's own
  std::string preset;  // estimates its capacity until that is measured (scheduler/engine/presets.h)
  ReadyCheck ready;
  conf::Duration drain = std::chrono::minutes(10);  // that its last requests may take
};

// Another version of the model: its replicas start beside those of the version in force, and take over by steps while
// they are no worse.
struct Rollout {
  std::string version;               // its name
  ReplicaTemplate replica;           // in place of the policy's
  std::optional<Weights> weights{};  // likewise; absent: the policy's
  router::RolloutSteps steps{.percents = {5, 25, 50, 100},
                             .hold = std::chrono::minutes(10),
                             .patience = std::chrono::hours(1),
                             .min_requests = 200,
                             .bounds = {}};
};

struct ModelPolicy {
  std::string file;
  std::string sha256;  // of its text
  scheduler::autoscale::ScalingPolicy scaling;
  Placement placement;
  scheduler::autoscale::BatchStarts
      batch{};                       // replicas for lines of batches, on devices that no other work wants
  std::optional<Weights> weights{};  // absent: the command brings them
  std::optional<ReplicaTemplate> replica;  // absent: in a simulation, which starts nothing, and with scale
  std::string version{};                   // the name of what `replica` and `weights` start; may be empty
  std::optional<Rollout> rollout{};        // a new version of it
  std::optional<ScaleTarget> scale{};  // the cluster starts and places the replicas; absent: Tidegate does

  const std::string& model() const { return scaling.model; }
  const std::string& preset() const { return scale ? scale->preset : replica->preset; }
};

// How a replica of that version is started. The policy has `replica`.
const ReplicaTemplate& TemplateOf(const ModelPolicy& policy, std::string_view version);
const std::optional<Weights>& WeightsOf(const ModelPolicy& policy, std::string_view version);
// The policy as it is for replicas of that version: with its template and weights in place of the policy's own.
ModelPolicy PolicyOfVersion(const ModelPolicy& policy, std::string_view version);

void Read(const conf::Value& value, Victim& out);
void Write(conf::Writer& writer, Victim in);

// The request to the planner for one replica. Its id, its time of submission and, where the policy names
// none, its queue are the caller's.
scheduler::Job AskOf(const ModelPolicy& policy);
// Of a sleeping replica: what it holds meanwhile on its nodes. Its places are the caller's.
scheduler::Job AskAsleep(const ModelPolicy& policy);
// Likewise for one that runs for batches alone: it preempts nothing, and all that may preempt batch jobs may
// preempt it.
scheduler::Job AskForBatches(const ModelPolicy& policy);

// That one replica holds, those of all its members: by its first choice, shares as parts; 0: it needs none.
double DevicesOf(const ModelPolicy& policy);

// Time zones are looked up in the system's database, secrets in `sources`.
scheduler::io::Loaded<ModelPolicy> ReadModelPolicy(std::string_view text, const std::string& file,
                                                   const conf::Sources& sources);

// For a caller that starts nothing: secrets are not read.
scheduler::io::Loaded<ModelPolicy> ReadUnopenedPolicy(std::string_view text, const std::string& file);

// Likewise, of the part that decides how many replicas there are.
scheduler::io::Loaded<scheduler::autoscale::ScalingPolicy> ReadScalingPolicy(std::string_view text,
                                                                             const std::string& file);

}  // namespace gateway::config
