#include "plugins/launchers/placeholders.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "conf/placeholders.h"

namespace plugins::launchers {
namespace {

constexpr std::string_view kWeights = "weights";
constexpr std::string_view kCompileCache = "compile_cache";
constexpr std::string_view kNames[] = {"host", "port",   "node",        "id",     "rank",
                                       "size", "leader", "leader_port", kWeights, kCompileCache};

}  // namespace

bool IsPlaceholder(std::string_view name) {
  return std::ranges::find(kNames, name) != std::end(kNames);
}

std::string FillPlaceholders(std::string_view text, const RunSpec& run, const ListenAt& at) {
  return conf::FillPlaceholders(text, [&](std::string_view name) -> std::optional<std::string> {
    if (name == "host") return at.host;
    if (name == "port") return std::to_string(at.port);
    if (name == "node") return run.grant.node;
    if (name == "id") return run.id;
    if (name == "rank") return std::to_string(run.gang.rank);
    if (name == "size") return std::to_string(run.gang.size);
    if (name == "leader") return run.gang.leader;
    if (name == "leader_port") return std::to_string(run.gang.leader_port);
    if (name == kWeights && run.weights) return run.weights->folder;
    if (name == kCompileCache && run.weights && !run.weights->cache.empty()) return run.weights->cache;
    // Without a value it stays as it is, and can be escaped all the same.
    if (IsPlaceholder(name)) return fmt::format("{{{}}}", name);
    return std::nullopt;
  });
}

std::string EscapePlaceholders(std::string_view text) {
  return conf::EscapePlaceholders(text, IsPlaceholder);
}

std::vector<std::string> CommandWithStep(const RunSpec& run, const ListenAt& at, const std::string& program) {
  std::vector<std::string> out;
  if (run.weights) {
    out = {run.weights->program.empty() ? program : run.weights->program, "weights", "fetch"};
    if (!run.command.empty()) out.emplace_back("--");
  }
  out.reserve(out.size() + run.command.size());
  for (const std::string& word : run.command) out.push_back(FillPlaceholders(word, run, at));
  return out;
}

}  // namespace plugins::launchers
