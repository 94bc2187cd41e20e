#include "plugins/launchers/placeholders.h"

#include <absl/strings/str_replace.h>

#include <utility>

#include "conf/text.h"

namespace plugins::launchers {

std::string FillPlaceholders(std::string_view text, const RunSpec& run, const ListenAt& at) {
  std::vector<std::pair<std::string, std::string>> values = {
      {"{host}", at.host},
      {"{port}", std::to_string(at.port)},
      {"{node}", run.grant.node},
      {"{id}", run.id},
      {"{rank}", std::to_string(run.gang.rank)},
      {"{size}", std::to_string(run.gang.size)},
      {"{leader}", run.gang.leader},
      {"{leader_port}", std::to_string(run.gang.leader_port)}};
  if (run.weights) {
    values.emplace_back("{weights}", run.weights->folder);
    if (!run.weights->cache.empty()) values.emplace_back("{compile_cache}", run.weights->cache);
  }
  return absl::StrReplaceAll(conf::Abseil(text), values);
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
