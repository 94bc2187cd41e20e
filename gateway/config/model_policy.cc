#include "gateway/config/model_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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

constexpr std::array<std::pair<std::string_view, Rank>, 4> kRanks = {{{"batch", Rank::kBatch},
                                                                      {"normal", Rank::kNormal},
                                                                      {"production", Rank::kProduction},
                                                                      {"critical", Rank::kCritical}}};

constexpr std::array<std::pair<std::string_view, Spread>, 2> kSpreads = {
    {{"none", Spread::kNone}, {"leaf", Spread::kLeaf}}};

constexpr std::array<std::pair<std::string_view, Victim>, 3> kVictims = {
    {{"training", Victim::kTraining}, {"batch", Victim::kBatch}, {"notebook", Victim::kNotebook}}};

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
      o.Error(fmt::format("{} is set by the devices that a replica is given", name), "env");
    if (replica.secret_env.contains(name)) o.Error(fmt::format("{} stands in secret_env too", name), "env");
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
  conf::Write(writer, std::string(conf::WordOf<Victim>(kVictims, in)));
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
  if (!IsEngine(replica.engine)) o.Error("is a provider's: nobody starts that here", "engine");
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

}  // namespace gateway::config
