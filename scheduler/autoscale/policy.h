// How many replicas of a model there should be: the policy of one model, as an operator writes it.
//
// Plain values; the reader (gateway/config/scaling_policy.h) checks them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "conf/words.h"
#include "scheduler/autoscale/cron.h"

namespace scheduler::autoscale {

enum class Law : uint8_t {
  kDemand,    // ours: what arrives, in seconds of a replica's work (demand.h)
  kKpa,       // Knative's: requests in flight, with a panic mode (kpa.h)
  kHpa,       // Kubernetes': the same against a target, with a tolerance (hpa.h)
  kSchedule,  // no law: only `replicas` and `schedule`
};
inline constexpr conf::Word<Law> kLawWords[] = {
    {"demand", Law::kDemand}, {"kpa", Law::kKpa}, {"hpa", Law::kHpa}, {"schedule", Law::kSchedule}};

struct DemandSettings {
  double up_at = 0.90;    // part of the replicas' capacity above which the law scales up
  double down_at = 0.80;  // below which it scales down
  conf::Duration window = std::chrono::seconds(60);  // over which demand is measured
  conf::Duration hold = std::chrono::seconds(60);    // for which fewer replicas must have sufficed
  double margin = 1;  // standard deviations of arrived from expected work, kept free
};

struct KpaSettings {
  double target = 0;  // requests in flight for each replica
  conf::Duration stable_window = std::chrono::seconds(60);
  conf::Duration panic_window = std::chrono::seconds(6);
  double panic_threshold = 2;  // times the ready replicas
  double max_scale_up = 1000;  // times what is ready
  double max_scale_down = 2;   // the ready replicas, divided by
};

struct HpaSettings {
  double target = 0;  // requests in flight for each replica
  double tolerance = 0.1;
  conf::Duration sync = std::chrono::seconds(15);
};

enum class RateUnit : uint8_t { kReplicas, kPercent };
enum class Select : uint8_t { kMax, kMin, kDisabled };

// The largest change in each period.
struct RateLimit {
  RateUnit type = RateUnit::kReplicas;
  uint32_t value = 0;
  conf::Duration period{};
};

// autoscaling/v2's HPAScalingRules.
struct ScalingRules {
  conf::Duration stabilization{};
  std::vector<RateLimit> policies{};  // none: no limit
  Select select = Select::kMax;       // of the changes that the policies allow
};

struct Behavior {
  ScalingRules scale_up{};
  ScalingRules scale_down{};
};

// Kubernetes' own defaults.
Behavior HpaBehavior();

struct ScheduledFloor {
  Cron cron{};
  std::string timezone = "UTC";  // as written
  absl::TimeZone zone{};
  uint32_t min = 0;
};

// What an engine keeps while it sleeps: its weights in host memory, or nothing.
enum class SleepLevel : uint8_t { kWeightsInHostMemory = 1, kNothing = 2 };

// Replicas that are not needed sleep before they end: their processes stay, and others may use their devices.
struct SleepSettings {
  SleepLevel level = SleepLevel::kWeightsInHostMemory;
  conf::Duration stop_after = std::chrono::hours(1);    // asleep; then it ends
  int64_t host_memory_mib = 0;                          // of each member while it sleeps
  conf::Duration min_awake = std::chrono::seconds(30);  // before it makes room for another that slept there
  conf::Duration wake_timeout = std::chrono::minutes(1);
};

struct ScalingPolicy {
  std::string model{};
  uint32_t min = 0;
  uint32_t max = 1;
  conf::Duration ttft = std::chrono::seconds(2);
  conf::Duration inter_token = std::chrono::milliseconds(200);
  double attainment = 0.99;
  Law law = Law::kDemand;
  DemandSettings demand{};
  KpaSettings kpa{};
  HpaSettings hpa{};
  std::optional<Behavior> behavior{};              // none: hpa has HpaBehavior(), the others no limits
  conf::Duration hold = std::chrono::minutes(10);  // how long a request waits for a replica
  conf::Duration heartbeat{};                      // sent to streams that wait; 0: none
  conf::Duration scale_to_zero_after = std::chrono::minutes(10);  // without traffic
  uint32_t standby = 1;  // replicas that stay until then; at least this many while there is any
  std::optional<SleepSettings> sleep{};  // absent: replicas that are not needed end
  std::vector<ScheduledFloor> schedule{};
};

// The floor of the entry that fired last; 0 when none has fired within five years.
uint32_t FloorAt(const std::vector<ScheduledFloor>& schedule, conf::TimePoint now);

// The replicas that a model has at least, whatever its load: `min`, or the schedule's floor.
uint32_t LeastAt(const ScalingPolicy& policy, conf::TimePoint now);

}  // namespace scheduler::autoscale
