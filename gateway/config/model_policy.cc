#include "gateway/config/model_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/reader.h"
#include "conf/text.h"
#include "gateway/config/scaling_policy.h"
#include "gateway/config/types.h"
#include "plugins/auth/digest.h"
#include "plugins/launchers/visible_devices.h"
#include "scheduler/engine/presets.h"
#include "scheduler/io/units.h"
#include "scheduler/model.h"

namespace gateway::config {
namespace {

constexpr conf::Word<Rank> kRanks[] = {{"batch", Rank::kBatch},
                                       {"normal", Rank::kNormal},
                                       {"production", Rank::kProduction},
                                       {"critical", Rank::kCritical}};

constexpr conf::Word<Spread> kSpreads[] = {{"none", Spread::kNone}, {"leaf", Spread::kLeaf}};

constexpr conf::Word<Victim> kVictims[] = {
    {"training", Victim::kTraining}, {"batch", Victim::kBatch}, {"notebook", Victim::kNotebook}};

struct KnownPreset {
  std::string operator()(const std::string& name) const {
    if (scheduler::engine::FindPreset(name)) return "";
    return fmt::format("unknown preset \"{}\"{}", name,
                       conf::DidYouMean(name, scheduler::engine::PresetNames()));
  }
};

// What a shell or a program would take for something else than it is meant.
void CheckEnvironment(conf::Object& o, const ReplicaTemplate& replica) {
  const auto valid = [](std::string_view name) {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    return !name.empty() && letter(name.front()) &&
           std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
  };
  for (const auto& [name, value] : replica.env) {
    if (!valid(name)) o.Error(fmt::format("\"{}\" is not the name of a variable", name), "env");
    if (plugins::launchers::IsVisibilityVariable(name))
      o.Error(fmt::format("{} is set by Tidegate to the devices of each replica; remove it", name), "env");
    if (replica.secret_env.contains(name))
      o.Error(fmt::format("{} is in secret_env too; keep one of them", name), "env");
  }
  for (const auto& [name, value] : replica.secret_env) {
    if (!valid(name)) o.Error(fmt::format("\"{}\" is not the name of a variable", name), "secret_env");
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
  o.Optional("devices", placement.devices);
  o.Optional("cpu", scheduler::io::Cores(placement.cpu_milli));
  o.Optional("memory", scheduler::io::Mebibytes(placement.memory_mib));
  o.Optional("priority", conf::Choice(placement.priority, "priority", kRanks));
  o.Optional("spread", conf::Choice(placement.spread, "spread", kSpreads));
  o.Optional("may_preempt", placement.may_preempt);
  o.Optional("queue", placement.queue, conf::NotEmpty());
}

static void Bind(conf::Object& o, ReadyCheck& ready) {
  o.Optional("path", ready.path, AbsolutePath());
  o.Optional("timeout", ready.timeout, UpToADay());
}

static void Bind(conf::Object& o, ReplicaTemplate& replica) {
  o.Required("engine", conf::Choice(replica.engine, "engine", EngineWords()));
  o.Required("command", replica.command, conf::NotEmpty());
  o.Optional("env", replica.env);
  o.Optional("secret_env", replica.secret_env);
  o.Optional("directory", replica.directory, conf::NotEmpty());
  o.Optional("model", replica.model, conf::NotEmpty());
  o.Optional("preset", replica.preset, KnownPreset());
  o.Optional("ready", replica.ready);
  o.Optional("drain", replica.drain, UpToADay());
  if (!IsEngine(replica.engine))
    o.Error("is a provider's API, which cannot be started here; name an engine", "engine");
  if (!replica.command.empty() && replica.command.front().empty())
    o.Error("must begin with a program", "command");
  CheckEnvironment(o, replica);
}

static void Bind(conf::Object& o, ModelPolicy& policy) {
  BindScaling(o, policy.scaling);
  o.Optional("placement", policy.placement);
  o.Optional("replica", policy.replica);
}

scheduler::io::Loaded<ModelPolicy> ReadModelPolicy(std::string_view text, const std::string& file,
                                                   const conf::Sources& sources) {
  conf::Document document(text, file, sources);
  ModelPolicy read;
  if (document.parsed()) conf::Read(document.root(), read);
  scheduler::io::Loaded<ModelPolicy> out;
  out.problems = document.TakeProblems();
  if (!out.problems.empty()) return out;
  read.file = file;
  read.sha256 = plugins::auth::ToHex(plugins::auth::Sha256(text));
  if (read.replica && read.replica->model.empty()) read.replica->model = read.scaling.model;
  out.value = std::move(read);
  return out;
}

scheduler::io::Loaded<scheduler::autoscale::ScalingPolicy> ReadScalingPolicy(std::string_view text,
                                                                             const std::string& file) {
  const conf::Sources unopened{
      .environment = [](const std::string&) { return std::optional<std::string>("unopened"); },
      .file = [](const std::string&) { return absl::StatusOr<std::string>("unopened"); }};
  scheduler::io::Loaded<ModelPolicy> whole = ReadModelPolicy(text, file, unopened);
  scheduler::io::Loaded<scheduler::autoscale::ScalingPolicy> out;
  out.problems = std::move(whole.problems);
  if (whole.value) out.value = std::move(whole.value->scaling);
  return out;
}

}  // namespace gateway::config
