#include "gateway/config/scaling_policy.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "conf/reader.h"
#include "conf/shown.h"
#include "scheduler/io/units.h"

namespace scheduler::autoscale {
namespace {

constexpr conf::Word<RateUnit> kUnits[] = {{"replicas", RateUnit::kReplicas},
                                           {"percent", RateUnit::kPercent}};
constexpr conf::Word<Select> kSelects[] = {
    {"max", Select::kMax}, {"min", Select::kMin}, {"disabled", Select::kDisabled}};

constexpr uint32_t kMostReplicas = 100'000;
constexpr double kMostTarget = 1e6;  // requests in flight

struct Within {
  conf::Duration least;
  conf::Duration most;
  std::string operator()(conf::Duration length) const {
    return least <= length && length <= most
               ? ""
               : fmt::format("must be from {} to {}", conf::InWords(least), conf::InWords(most));
  }
};

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
constexpr Within kAnyWait{conf::Duration(), hours(24)};

// Sections whose fields stand elsewhere in the policy.
struct Replicas {
  ScalingPolicy* policy;
};
struct Objectives {
  ScalingPolicy* policy;
};
struct Scaling {
  ScalingPolicy* policy;
};
struct ColdStart {
  ScalingPolicy* policy;
};
struct Idle {
  ScalingPolicy* policy;
};

void Bind(conf::Object& o, Replicas& replicas) {
  ScalingPolicy& p = *replicas.policy;
  o.Optional("min", p.min, conf::Range{0u, kMostReplicas});
  o.Required("max", p.max, conf::Range{1u, kMostReplicas});
  if (p.min > p.max) o.Error(fmt::format("is {}; must be at most max, {}", p.min, p.max), "min");
}

void Bind(conf::Object& o, Objectives& slo) {
  ScalingPolicy& p = *slo.policy;
  o.Optional("ttft", p.ttft, conf::Positive());
  o.Optional("inter_token", p.inter_token, conf::Positive());
  o.Optional("attainment", p.attainment, conf::Range{0.5, 1.0});
}

void BindDemand(conf::Object& o, DemandSettings& law) {
  o.Optional("up_at", law.up_at, conf::Range{0.05, 2.0});
  o.Optional("down_at", law.down_at, conf::Range{0.01, 2.0});
  o.Optional("window", law.window, Within{seconds(5), hours(1)});
  o.Optional("hold", law.hold, kAnyWait);
  o.Optional("margin", law.margin, conf::Range{0.0, 10.0});
  if (law.down_at >= law.up_at) {
    o.Error(fmt::format("is {:g}; must be below up_at, {:g}, or replicas would start and stop in turn",
                        law.down_at, law.up_at),
            "down_at");
  }
}

void BindKpa(conf::Object& o, KpaSettings& law) {
  o.Required("target", law.target, conf::Range{0.01, kMostTarget});
  o.Optional("stable_window", law.stable_window, Within{seconds(6), hours(1)});
  o.Optional("panic_window", law.panic_window, Within{seconds(1), hours(1)});
  o.Optional("panic_threshold", law.panic_threshold, conf::Range{1.1, 10.0});
  o.Optional("max_scale_up", law.max_scale_up, conf::Range{1.1, 1e6});
  o.Optional("max_scale_down", law.max_scale_down, conf::Range{1.1, 1e6});
  if (law.panic_window > law.stable_window) {
    o.Error(fmt::format("is {}; must be at most stable_window, {}", conf::InWords(law.panic_window),
                        conf::InWords(law.stable_window)),
            "panic_window");
  }
}

void BindHpa(conf::Object& o, HpaSettings& law) {
  o.Required("target", law.target, conf::Range{0.01, kMostTarget});
  o.Optional("tolerance", law.tolerance, conf::Range{0.0, 1.0});
  o.Optional("sync", law.sync, Within{seconds(1), minutes(30)});
}

void Bind(conf::Object& o, Scaling& scaling) {
  ScalingPolicy& p = *scaling.policy;
  o.Required("policy", conf::Choice(p.law, "scaling policy", kLawWords));
  switch (p.law) {
    case Law::kDemand:
      return BindDemand(o, p.demand);
    case Law::kKpa:
      return BindKpa(o, p.kpa);
    case Law::kHpa:
      return BindHpa(o, p.hpa);
    case Law::kSchedule:
      return;
  }
}

void Bind(conf::Object& o, ColdStart& cold_start) {
  o.Optional("hold", cold_start.policy->hold, Within{seconds(1), hours(24)});
  o.Optional("heartbeat", cold_start.policy->heartbeat, Within{conf::Duration(), hours(1)});
}

// `sleep_after` takes the place of `scale_to_zero_after`: from then on no replica is awake.
void Bind(conf::Object& o, Idle& idle) {
  ScalingPolicy& p = *idle.policy;
  constexpr Within kAnyIdle{conf::Duration(), hours(24 * 30)};
  const bool sleeps = o.reading() ? o.Has("sleep_after") : p.sleep.has_value();
  if (o.reading() || !sleeps) o.Optional("scale_to_zero_after", p.scale_to_zero_after, kAnyIdle);
  o.Optional("standby", p.standby, conf::Range{1u, kMostReplicas});
  if (!o.reading() && !sleeps) return;
  SleepSettings sleep = p.sleep.value_or(SleepSettings());
  auto level = static_cast<uint32_t>(sleep.level);
  o.Optional("sleep_after", p.scale_to_zero_after, kAnyIdle);
  o.Optional("stop_after", sleep.stop_after, Within{seconds(1), hours(24 * 30)});
  o.Optional("level", level, conf::Range{1u, 2u});
  o.Optional("host_memory", scheduler::io::Mebibytes(sleep.host_memory_mib));
  o.Optional("min_awake", sleep.min_awake, Within{conf::Duration(), hours(1)});
  o.Optional("wake_timeout", sleep.wake_timeout, Within{seconds(1), hours(1)});
  if (!o.reading()) return;
  if (!sleeps) {
    for (const std::string_view key : {"stop_after", "level", "host_memory", "min_awake", "wake_timeout"}) {
      if (o.Has(key)) o.Error("has no effect without sleep_after; give that too, or remove it", key);
    }
    return;
  }
  if (o.Has("scale_to_zero_after")) {
    o.Error("has no effect with sleep_after, after which no replica is awake; remove one of the two",
            "scale_to_zero_after");
  }
  if (level == 1 && !o.Has("host_memory")) {
    o.Error(
        "keeps the weights in host memory: give host_memory, what one member holds while it sleeps, or "
        "level: 2, which discards them",
        o.Has("level") ? "level" : "sleep_after");
  }
  sleep.level = static_cast<SleepLevel>(level);
  p.sleep = sleep;
}

}  // namespace

// Found by conf::Object through the types' namespace.
static void Bind(conf::Object& o, RateLimit& limit) {
  o.Required("type", conf::Choice(limit.type, "type of limit", kUnits));
  o.Required("value", limit.value, conf::Range{1u, kMostReplicas});
  o.Required("period", limit.period, Within{seconds(1), minutes(30)});
}

static void Bind(conf::Object& o, ScalingRules& rules) {
  o.Optional("stabilization", rules.stabilization, Within{conf::Duration(), hours(1)});
  o.Optional("policies", rules.policies);
  o.Optional("select", conf::Choice(rules.select, "selection", kSelects));
}

static void Bind(conf::Object& o, Behavior& behavior) {
  o.Optional("scale_up", behavior.scale_up);
  o.Optional("scale_down", behavior.scale_down);
}

static void Bind(conf::Object& o, ScheduledFloor& floor) {
  std::string cron = floor.cron.text();
  o.Required("cron", cron, conf::NotEmpty());
  o.Optional("timezone", floor.timezone, conf::NotEmpty());
  o.Required("min", floor.min, conf::Range{0u, kMostReplicas});
  std::string why;
  if (const std::optional<Cron> parsed = cron.empty() ? std::nullopt : Cron::Parse(cron, why)) {
    floor.cron = *parsed;
  } else if (!why.empty()) {
    o.Error(why, "cron");
  }
  if (!absl::LoadTimeZone(floor.timezone, &floor.zone)) {
    o.Error(fmt::format("unknown time zone \"{}\": must be a name such as Asia/Shanghai", floor.timezone),
            "timezone");
  }
}

// Not one of those: a file has more keys.
static void BindPolicy(conf::Object& o, ScalingPolicy& p) {
  o.Required("model", p.model, conf::NotEmpty());
  o.Required("replicas", Replicas{&p});
  o.Optional("slo", Objectives{&p});
  o.Required("scaling", Scaling{&p});
  o.Optional("behavior", p.behavior);
  o.Optional("cold_start", ColdStart{&p});
  o.Optional("idle", Idle{&p});
  if (p.standby > p.max)
    o.Error(fmt::format("standby is {}; must be at most replicas.max, {}", p.standby, p.max), "idle");
  o.Optional("schedule", p.schedule);
  for (const ScheduledFloor& floor : p.schedule) {
    if (floor.min <= p.max) continue;
    o.Error(fmt::format("asks for {} replicas at \"{}\", above replicas.max, {}", floor.min,
                        floor.cron.text(), p.max),
            "schedule");
  }
}

namespace {

struct Whole {
  ScalingPolicy* policy;
};
void Bind(conf::Object& o, Whole& whole) {
  BindPolicy(o, *whole.policy);
}

}  // namespace

static nlohmann::json Written(ScalingPolicy policy) {
  nlohmann::json out;
  conf::Writer writer(out);
  conf::Write(writer, Whole{&policy});
  conf::Prune(out);
  return out;
}

}  // namespace scheduler::autoscale

namespace gateway::config {

using scheduler::autoscale::ScalingPolicy;

void BindScaling(conf::Object& object, ScalingPolicy& out) {
  BindPolicy(object, out);
}

nlohmann::json ToJson(const ScalingPolicy& policy) {
  return scheduler::autoscale::Written(policy);
}

}  // namespace gateway::config
