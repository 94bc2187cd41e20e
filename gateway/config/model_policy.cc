#include "gateway/config/model_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "conf/hex.h"
#include "conf/placeholders.h"
#include "conf/reader.h"
#include "conf/text.h"
#include "gateway/config/command_text.h"
#include "gateway/config/gang.h"
#include "gateway/config/scaling_policy.h"
#include "gateway/config/types.h"
#include "plugins/auth/digest.h"
#include "plugins/engines/engine_key.h"
#include "plugins/engines/engine_sleep.h"
#include "plugins/launchers/mps.h"
#include "plugins/launchers/visible_devices.h"
#include "scheduler/engine/presets.h"
#include "scheduler/filler.h"
#include "scheduler/io/units.h"
#include "scheduler/model.h"

namespace router {

static void Bind(conf::Object& o, FeedbackBound& bound) {
  o.Required("name", bound.name, conf::NotEmpty());
  o.Optional("drop", bound.drop, conf::Range{0.0, 1.0});
}

static void Bind(conf::Object& o, RolloutBounds& bounds) {
  o.Optional("errors", bounds.errors, conf::Range{0.0, 1.0});
  o.Optional("ttft", bounds.ttft, conf::Range{1.0, 100.0});
  o.Optional("tokens_per_second", bounds.tokens_per_second, conf::Range{0.01, 1.0});
  o.Optional("feedback", bounds.feedback);
}

}  // namespace router

namespace scheduler::autoscale {

static void Bind(conf::Object& o, BatchStarts& batch) {
  o.Optional("may_start", batch.may_start);
  o.Optional("max_replicas", batch.max_replicas, conf::Range{1U, 1000U});
}

}  // namespace scheduler::autoscale

namespace gateway::config {
namespace {

using scheduler::WorkClass;

constexpr uint32_t kMostReplicaMembers = 64;  // of one replica

constexpr conf::Word<Rank> kRanks[] = {{"batch", Rank::kBatch},
                                       {"normal", Rank::kNormal},
                                       {"production", Rank::kProduction},
                                       {"critical", Rank::kCritical}};

constexpr conf::Word<ReplicaKey> kReplicaKeys[] = {{"generated", ReplicaKey::kGenerated},
                                                   {"none", ReplicaKey::kNone}};

constexpr conf::Word<Victim> kVictims[] = {
    {"training", Victim::kTraining}, {"batch", Victim::kBatch}, {"notebook", Victim::kNotebook}};

struct KnownPreset {
  std::string operator()(const std::string& name) const {
    if (scheduler::engine::FindPreset(name)) return "";
    return fmt::format("unknown preset \"{}\"{}", name,
                       conf::DidYouMean(name, scheduler::engine::PresetNames()));
  }
};

// Refuses characters that a shell or a program would interpret.
void CheckEnvironment(conf::Object& o, const ReplicaTemplate& replica) {
  const auto valid = [](std::string_view name) {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    return !name.empty() && letter(name.front()) &&
           std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
  };
  for (const auto& [name, value] : replica.env) {
    if (!valid(name)) o.Error(fmt::format("\"{}\" is not the name of a variable", name), "env");
    if (plugins::launchers::IsVisibilityVariable(name) || plugins::launchers::IsMpsVariable(name))
      o.Error(fmt::format("{} is set by Tidegate to the devices of each replica; remove it", name), "env");
    if (replica.secret_env.contains(name))
      o.Error(fmt::format("{} is in secret_env too; keep one of them", name), "env");
  }
  for (const auto& [name, value] : replica.secret_env) {
    if (!valid(name)) o.Error(fmt::format("\"{}\" is not the name of a variable", name), "secret_env");
  }
}

// A key that the command gives by itself is another than the gateway's, and is seen by every user of the
// machine.
void CheckKey(conf::Object& o, const ReplicaTemplate& replica) {
  if (replica.api_key == ReplicaKey::kNone) return;
  const plugins::engines::EngineKey* const how = plugins::engines::FindEngineKey(Name(replica.engine));
  if (how == nullptr) {
    o.Error(fmt::format("{} cannot demand a key; set it to none, or remove it", Name(replica.engine)),
            "api_key");
    return;
  }
  const std::string_view variable =
      how->variable.empty() ? plugins::engines::kReplicaKeyVariable : how->variable;
  for (const std::string_view own : {variable, std::string_view(plugins::engines::kReplicaKeyVariable)}) {
    const std::string name(own);
    const char* const where = replica.env.contains(name)          ? "env"
                              : replica.secret_env.contains(name) ? "secret_env"
                                                                  : nullptr;
    if (where != nullptr)
      o.Error(fmt::format("{} is set by Tidegate to a key of each replica; remove it, or set api_key: none",
                          name),
              where);
  }
  const auto check = [&](const std::vector<std::string>& command, std::string_view key) {
    std::string_view before;
    for (const std::string& word : command) {
      const bool starts_sglang = word == "sglang.launch_server" ||
                                 (word == "serve" && (before == "sglang" || before.ends_with("/sglang")));
      before = word;
      if (word == "--api-key" || word.starts_with("--api-key=")) {
        o.Error(
            fmt::format("{} gives the engine another key than the gateway's, and shows it to every user of "
                        "the machine; remove it (the engine finds its key in {}), or set api_key: none",
                        word, variable),
            key);
      } else if (how->variable.empty() && starts_sglang) {
        o.Error(
            fmt::format("SGLang reads no key from its environment; start it as docs/models.md shows, which "
                        "hands {} over, or set api_key: none",
                        variable),
            key);
      }
    }
  };
  check(replica.command, "command");
  check(replica.worker_command, "worker_command");
}

std::vector<WorkClass> SparedBy(const std::vector<Victim>& may_preempt) {
  constexpr std::array<std::pair<WorkClass, Victim>, 4> kOf = {{{WorkClass::kTraining, Victim::kTraining},
                                                                {WorkClass::kBatch, Victim::kBatch},
                                                                {WorkClass::kArray, Victim::kBatch},
                                                                {WorkClass::kNotebook, Victim::kNotebook}}};
  std::vector<WorkClass> spared;
  spared.reserve(kOf.size());
  for (const auto& [work, victim] : kOf) {
    if (std::ranges::find(may_preempt, victim) == may_preempt.end()) spared.push_back(work);
  }
  return spared;
}

// Options that need several members, and options that several members must not set.
void CheckMembers(conf::Document& document, const ModelPolicy& policy, std::string_view in_section = {}) {
  if (!policy.replica) return;
  const ReplicaTemplate& replica = *policy.replica;
  if (policy.placement.members > 1) {
    const auto check = [&](const auto& variables, std::string_view key) {
      for (const auto& [name, value] : variables) {
        if (IsGangVariable(name))
          document.AddAt(fmt::format("{}/replica/{}/{}", in_section, key, name), name,
                         fmt::format("{} is set by Tidegate for each member; remove it", name));
      }
    };
    check(replica.env, "env");
    check(replica.secret_env, "secret_env");
    return;
  }
  if (!replica.worker_command.empty()) {
    document.AddAt(fmt::format("{}/replica/worker_command", in_section), replica.worker_command.front(),
                   "has no effect on a replica of one member; set placement.members, or remove it");
  }
  for (size_t i = 0; i < replica.command.size(); ++i) {
    if (replica.command[i].find("{leader") == std::string::npos) continue;
    document.AddAt(fmt::format("{}/replica/command/{}", in_section, i), replica.command[i],
                   "names the leader, and a replica of one member has none; set placement.members, or "
                   "remove it");
  }
}

// Engines that cannot sleep, and replicas that another starts.
void CheckSleep(conf::Document& document, const ModelPolicy& policy) {
  const std::optional<scheduler::autoscale::SleepSettings>& sleep = policy.scaling.sleep;
  if (!sleep) return;
  const std::string given = "sleep_after";
  if (policy.scale) {
    document.AddAt("/idle/sleep_after", given,
                   "has no effect with scale: the cluster starts and ends the replicas; give "
                   "scale_to_zero_after instead");
    return;
  }
  if (!policy.replica) return;
  const std::string_view engine = Name(policy.replica->engine);
  const plugins::engines::EngineSleep* const how = plugins::engines::FindEngineSleep(engine);
  if (how == nullptr) {
    document.AddAt(
        "/idle/sleep_after", given,
        fmt::format("{} cannot sleep; vllm and sglang can. Give scale_to_zero_after instead", engine));
  } else if (sleep->level == scheduler::autoscale::SleepLevel::kNothing && how->deep.empty()) {
    document.AddAt("/idle/level", "2", fmt::format("{} keeps its weights in host memory; remove it", engine));
  }
}

bool IsDigits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Replicas that all listen on one port cannot run beside each other.
void CheckPort(conf::Document& document, const ModelPolicy& policy, std::string_view in_section = {}) {
  if (!policy.replica || policy.scaling.max < 2) return;
  const std::vector<std::string>& command = policy.replica->command;
  for (size_t i = 0; i < command.size(); ++i) {
    constexpr std::string_view kOption = "--port";
    const std::string_view word = command[i];
    const bool with_value = word.starts_with("--port=") && IsDigits(word.substr(kOption.size() + 1));
    const bool before_value = word == kOption && i + 1 < command.size() && IsDigits(command[i + 1]);
    if (!with_value && !before_value) continue;
    document.AddAt(
        fmt::format("{}/replica/command/{}", in_section, with_value ? i : i + 1),
        command[with_value ? i : i + 1],
        fmt::format("is the same port for each of up to {} replicas; write \"{{port}}\", which Tidegate "
                    "replaces by a port of each replica's own",
                    policy.scaling.max));
  }
}

void CheckBraces(conf::Document& document, const ModelPolicy& policy, std::string_view in_section = {}) {
  if (!policy.replica) return;
  const auto check = [&](std::string_view key, const std::string& at, const std::string& text) {
    if (const std::string problem = UnevenBraces(text); !problem.empty())
      document.AddAt(fmt::format("{}/replica/{}/{}", in_section, key, at), text, problem);
  };
  for (size_t i = 0; i < policy.replica->command.size(); ++i)
    check("command", std::to_string(i), policy.replica->command[i]);
  for (size_t i = 0; i < policy.replica->worker_command.size(); ++i)
    check("worker_command", std::to_string(i), policy.replica->worker_command[i]);
  for (const auto& [name, value] : policy.replica->env) check("env", name, value);
}

// Weights that no command uses, and commands whose weights come from nowhere.
void CheckWeights(conf::Document& document, const ModelPolicy& policy, std::string_view in_section = {}) {
  if (!policy.replica) return;
  const ReplicaTemplate& replica = *policy.replica;
  const auto names = [&](std::string_view placeholder) {
    const auto in = [&](const std::string& text) { return conf::UsesPlaceholder(text, placeholder); };
    return std::ranges::any_of(replica.command, in) || std::ranges::any_of(replica.worker_command, in) ||
           std::ranges::any_of(replica.env, [&](const auto& variable) { return in(variable.second); });
  };
  if (policy.weights && !names("weights")) {
    document.AddAt(fmt::format("{}/weights", in_section), policy.weights->digest,
                   "are used by no command; write {weights} where the replica's command names the model's "
                   "folder");
  }
  if (!policy.weights && (names("weights") || names("compile_cache"))) {
    document.AddAt(fmt::format("{}/replica/command", in_section), replica.command.front(),
                   "names {weights} or {compile_cache}, and the policy has no weights; give weights");
  }
  if (!policy.weights) return;
  const std::optional<CompileCache>& cache = policy.weights->compile_cache;
  if (cache && cache->version.empty() && replica.image.empty()) {
    document.AddAt(fmt::format("{}/weights/compile_cache", in_section), "",
                   "needs the engine's version, because compiled kernels fit one version: give version, or "
                   "replica.image");
  }
  if (!cache && names("compile_cache")) {
    document.AddAt(fmt::format("{}/replica/command", in_section), replica.command.front(),
                   "names {compile_cache}, and the weights have none; give weights.compile_cache");
  }
}

}  // namespace

void Read(const conf::Value& value, Victim& out) {
  conf::Read(value, conf::Choice(out, "kind of work", kVictims));
}

void Write(conf::Writer& writer, Victim in) {
  conf::Write(writer, std::string(conf::WordOf(kVictims, in)));
}

static void Bind(conf::Object& o, Placement& placement) {
  o.Optional("members", placement.members, conf::Range{1U, kMostReplicaMembers});
  o.Optional("topology", Nearness{&placement.topology});
  o.Optional("devices", placement.devices);
  o.Optional("cpu", scheduler::io::Cores(placement.cpu_milli));
  o.Optional("memory", scheduler::io::Mebibytes(placement.memory_mib));
  o.Optional("priority", conf::Choice(placement.priority, "priority", kRanks));
  BindPlacing(o, placement.placing);
  o.Optional("may_preempt", placement.may_preempt);
  o.Optional("queue", placement.queue, conf::NotEmpty());
  if (placement.members == 1 && !placement.topology.level.empty()) {
    o.Error("has no effect on a replica of one member; set members, or remove it", "topology");
  }
  if (placement.placing.isolation == scheduler::Isolation::kTenant)
    o.Error("is tenant, but replicas serve all tenants; give node or none", "isolation");
  if (placement.placing.apart && placement.members == 1)
    o.Error("has no effect on a replica of one member; set members, or spread: node", "apart");
  if (placement.members > 1 && placement.placing.spread.spread && !placement.topology.required) {
    o.Error("would also separate the members of a replica; give topology with required: true, or remove it",
            "spread");
  }
}

static void Bind(conf::Object& o, ReadyCheck& ready) {
  o.Optional("path", ready.path, AbsolutePath());
  o.Optional("timeout", ready.timeout, UpToADay());
  o.Optional("token", ready.token);
}

static void Bind(conf::Object& o, ReplicaTemplate& replica) {
  o.Required("engine", conf::Choice(replica.engine, "engine", EngineWords()));
  o.Optional("image", replica.image, conf::NotEmpty());
  o.Optional("pod", replica.pod);
  CommandWords command{&replica.command};
  CommandWords worker_command{&replica.worker_command};
  VariableValues env{&replica.env};
  o.Required("command", command, conf::NotEmpty());
  o.Optional("worker_command", worker_command, conf::NotEmpty());
  o.Optional("env", env);
  o.Optional("secret_env", replica.secret_env);
  if (!o.Has("api_key") && plugins::engines::FindEngineKey(Name(replica.engine)) == nullptr)
    replica.api_key = ReplicaKey::kNone;
  o.Optional("api_key", conf::Choice(replica.api_key, "way to a key", kReplicaKeys));
  o.Optional("tls", replica.tls);
  o.Optional("directory", replica.directory, conf::NotEmpty());
  o.Optional("model", replica.model, conf::NotEmpty());
  o.Optional("preset", replica.preset, KnownPreset());
  o.Optional("ready", replica.ready);
  o.Optional("drain", replica.drain, UpToADay());
  if (!IsEngine(replica.engine))
    o.Error("is a provider's API, which cannot be started here; name an engine", "engine");
  if (!replica.command.empty() && replica.command.front().empty())
    o.Error("must begin with a program", "command");
  if (!replica.worker_command.empty() && replica.worker_command.front().empty())
    o.Error("must begin with a program", "worker_command");
  CheckEnvironment(o, replica);
  CheckKey(o, replica);
}

static void Bind(conf::Object& o, Rollout& rollout) {
  o.Required("version", rollout.version, ValidName());
  o.Required("replica", rollout.replica);
  o.Optional("weights", rollout.weights);
  router::RolloutSteps& steps = rollout.steps;
  o.Optional("steps", steps.percents, conf::NotEmpty());
  o.Optional("hold", steps.hold, UpToADay());
  o.Optional("patience", steps.patience, UpToADay());
  o.Optional("min_requests", steps.min_requests, conf::Range{uint64_t{20}, uint64_t{1'000'000}});
  o.Optional("bounds", steps.bounds);
  const bool rise = std::ranges::adjacent_find(steps.percents, std::greater_equal()) == steps.percents.end();
  if (!steps.percents.empty() && (!rise || steps.percents.front() <= 0 || steps.percents.back() != 100))
    o.Error("must rise from above 0 to 100, as [5, 25, 50, 100] does", "steps");
  if (steps.patience <= steps.hold) o.Error("must be longer than hold", "patience");
}

static void Bind(conf::Object& o, ModelPolicy& policy) {
  BindScaling(o, policy.scaling);
  o.Optional("version", policy.version, ValidName());
  o.Optional("placement", policy.placement);
  o.Optional("batch", policy.batch);
  o.Optional("weights", policy.weights);
  o.Optional("replica", policy.replica);
  o.Optional("scale", policy.scale);
  o.Optional("rollout", policy.rollout);
  if (policy.rollout && policy.rollout->version == policy.version)
    o.Error("names the version that is in force; give the new one a name of its own", "rollout");
  for (const std::string_view key : {"replica", "placement", "batch", "weights", "version", "rollout"}) {
    if (o.Has(key) && o.Has("scale")) {
      o.Error(
          "has no effect with scale: the cluster starts the replicas and places them; remove one of the two",
          key);
    }
  }
}

const ReplicaTemplate& TemplateOf(const ModelPolicy& policy, std::string_view version) {
  return policy.rollout && policy.rollout->version == version ? policy.rollout->replica : *policy.replica;
}

const std::optional<Weights>& WeightsOf(const ModelPolicy& policy, std::string_view version) {
  const bool own = policy.rollout && policy.rollout->version == version && policy.rollout->weights;
  return own ? policy.rollout->weights : policy.weights;
}

ModelPolicy PolicyOfVersion(const ModelPolicy& policy, std::string_view version) {
  ModelPolicy out = policy;
  out.replica = TemplateOf(policy, version);
  out.weights = WeightsOf(policy, version);
  out.version = version;
  out.rollout.reset();
  return out;
}

scheduler::Job AskOf(const ModelPolicy& policy) {
  const Placement& placement = policy.placement;
  // What it will hold asleep is kept from the start, so that it can always fall asleep.
  const int64_t asleep_mib = policy.scaling.sleep ? policy.scaling.sleep->host_memory_mib : 0;
  scheduler::Ask ask{.cpu_milli = placement.cpu_milli,
                     .memory_mib = std::max(placement.memory_mib, asleep_mib)};
  ask.devices.reserve(placement.devices.size());
  for (const DeviceNeed& need : placement.devices) ask.devices.push_back(need.ask);
  scheduler::Job job;
  job.user = "tidegate";
  job.work = WorkClass::kInference;
  job.preemptible = false;
  job.array = policy.model();
  job.queue = placement.queue;
  job.priority = static_cast<int32_t>(placement.priority);
  job.roles = {{.name = placement.members > 1 ? "member" : "replica",
                .ask = std::move(ask),
                .count = placement.members,
                .min_count = placement.members}};
  job.topology = placement.topology;
  job.never_preempts = SparedBy(placement.may_preempt);
  Apply(placement.placing, job);
  return job;
}

scheduler::Job AskAsleep(const ModelPolicy& policy) {
  scheduler::Job job = AskOf(policy);
  job.array.clear();  // others are spread over the nodes where replicas are awake
  job.topology = {};
  job.spread = false;
  job.spread_over.clear();
  job.anti_affinity = false;
  job.resources.clear();  // an engine that sleeps needs no licence
  scheduler::Ask& ask = job.roles.front().ask;
  ask.devices.clear();
  ask.cpu_milli = 0;
  ask.memory_mib = policy.scaling.sleep ? policy.scaling.sleep->host_memory_mib : 0;
  return job;
}

scheduler::Job AskForBatches(const ModelPolicy& policy) {
  scheduler::Job job = AskOf(policy);
  job.work = WorkClass::kBatch;
  job.preemptible = true;
  job.priority = scheduler::kFillerPriority;
  job.never_preempts = SparedBy({});
  return job;
}

double DevicesOf(const ModelPolicy& policy) {
  const Placement& placement = policy.placement;
  if (placement.devices.empty()) return 0;
  return placement.members * static_cast<double>(scheduler::DeviceMilli(placement.devices.front().ask)) /
         scheduler::kWholeDevice;
}

scheduler::io::Loaded<ModelPolicy> ReadModelPolicy(std::string_view text, const std::string& file,
                                                   const conf::Sources& sources) {
  conf::Document document(text, file, sources);
  ModelPolicy read;
  if (document.parsed()) conf::Read(document.root(), read);
  if (document.problem_count() == 0) {
    CheckMembers(document, read);
    CheckPort(document, read);
    CheckBraces(document, read);
    CheckSleep(document, read);
    CheckWeights(document, read);
    if (read.rollout && read.replica) {
      const ModelPolicy next = PolicyOfVersion(read, read.rollout->version);
      CheckMembers(document, next, "/rollout");
      CheckPort(document, next, "/rollout");
      CheckBraces(document, next, "/rollout");
      CheckWeights(document, next, "/rollout");
    }
  }
  scheduler::io::Loaded<ModelPolicy> out;
  out.problems = document.TakeProblems();
  if (!out.problems.empty()) return out;
  read.file = file;
  read.sha256 = conf::Hex(plugins::auth::Sha256(text));
  if (read.replica && read.replica->model.empty()) read.replica->model = read.scaling.model;
  if (read.rollout && read.rollout->replica.model.empty()) read.rollout->replica.model = read.scaling.model;
  out.value = std::move(read);
  return out;
}

scheduler::io::Loaded<ModelPolicy> ReadUnopenedPolicy(std::string_view text, const std::string& file) {
  const conf::Sources unopened{
      .environment = [](const std::string&) { return std::optional<std::string>("unopened"); },
      .file = [](const std::string&) { return absl::StatusOr<std::string>("unopened"); }};
  return ReadModelPolicy(text, file, unopened);
}

scheduler::io::Loaded<scheduler::autoscale::ScalingPolicy> ReadScalingPolicy(std::string_view text,
                                                                             const std::string& file) {
  scheduler::io::Loaded<ModelPolicy> whole = ReadUnopenedPolicy(text, file);
  scheduler::io::Loaded<scheduler::autoscale::ScalingPolicy> out;
  out.problems = std::move(whole.problems);
  if (whole.value) out.value = std::move(whole.value->scaling);
  return out;
}

}  // namespace gateway::config
