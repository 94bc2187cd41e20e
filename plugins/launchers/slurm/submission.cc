#include "plugins/launchers/slurm/submission.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "plugins/launchers/placeholders.h"
#include "plugins/launchers/slurm/script.h"
#include "plugins/weights/order.h"

namespace plugins::launchers::slurm {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxId = 63;
constexpr size_t kMaxScript = 1U << 20;
constexpr std::string_view kPath = "/usr/local/bin:/usr/bin:/bin";

bool IsIdCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
}

int64_t WholeMinutes(conf::Duration duration) {
  return std::max<int64_t>(1, std::chrono::ceil<std::chrono::minutes>(duration).count());
}

}  // namespace

std::string Render(const Mark& mark) {
  Json json = {{"tidegate", 1},
               {"state", mark.state},
               {"owner", mark.owner},
               {"tenant", mark.tenant},
               {"port", mark.port}};
  if (mark.epoch != 0) json["epoch"] = mark.epoch;
  return conf::DumpJson(json);
}

std::optional<Mark> ReadMark(std::string_view comment) {
  if (!comment.starts_with('{')) return std::nullopt;
  const Json json = conf::ParseJson(comment);
  const auto text = [&json](const char* key) -> std::optional<std::string> {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_string()) return std::nullopt;
    return found->get<std::string>();
  };
  if (!json.is_object()) return std::nullopt;
  const auto version = json.find("tidegate");
  const auto port = json.find("port");
  std::optional<std::string> state = text("state");
  std::optional<std::string> owner = text("owner");
  std::optional<std::string> tenant = text("tenant");
  if (version == json.end() || *version != 1 || !state || !owner || !tenant || port == json.end() ||
      !port->is_number_unsigned() || *port > UINT16_MAX) {
    return std::nullopt;
  }
  const auto epoch = json.find("epoch");
  const bool numbered = epoch != json.end() && epoch->is_number_unsigned();
  return Mark{.state = *std::move(state),
              .owner = *std::move(owner),
              .tenant = *std::move(tenant),
              .port = port->get<uint16_t>(),
              .epoch = numbered ? epoch->get<uint64_t>() : 0};
}

std::string RenderBody(const Submission& submission) {
  const RunSpec& run = submission.run;
  const ListenAt at{.host = submission.host, .port = submission.mark.port};
  const std::vector<std::string> command = CommandWithStep(run, at, {});
  Json environment = {{"PATH", kPath}};
  for (const auto& [name, value] : run.env) environment[name] = FillPlaceholders(value, run, at);
  if (run.weights) environment[weights::kOrderVariable] = run.weights->order;
  const std::string log = submission.log.empty() ? "/dev/null" : submission.log;
  Json job = {{"name", run.id},
              {"comment", Render(submission.mark)},
              {"dependency", "singleton"},
              {"no_requeue", true},  // after its node failed, a run is over: a restart is another run
              {"nodelist", run.grant.node},
              {"nodes", 1},
              {"tasks", 1},
              {"cpus_per_task", submission.cpus},
              {"environment", std::move(environment)},
              {"current_working_directory", run.directory.empty() ? "/" : run.directory},
              {"standard_output", log},
              {"standard_error", log},
              {"open_mode", "append"}};
  const auto add = [&job](const char* key, const std::string& value) {
    if (!value.empty()) job[key] = value;
  };
  add("partition", submission.partition);
  add("account", submission.account);
  add("qos", submission.qos);
  add("gres", submission.gres);
  if (submission.memory_mib > 0) job["memory_per_node"] = submission.memory_mib;
  if (run.limit) job["time_limit"] = WholeMinutes(*run.limit);
  const std::string script =
      submission.result.empty() ? RenderScript(command)
                                : RenderScript(command, {submission.result, run.id, Render(submission.mark)});
  return Json{{"script", script}, {"job", std::move(job)}}.dump(-1, ' ', /*ensure_ascii=*/false,
                                                                Json::error_handler_t::replace);
}

std::string FirstDefect(const RunSpec& run) {
  if (run.id.empty() || run.id.size() > kMaxId || !std::all_of(run.id.begin(), run.id.end(), IsIdCharacter)) {
    return fmt::format("run \"{}\": an id has 1 to {} lower-case letters, digits, '.' and '-'", run.id,
                       kMaxId);
  }
  const auto defect = [&run](std::string_view what) { return fmt::format("run {}: {}", run.id, what); };
  const auto has_nul = [](const std::string& text) { return text.find('\0') != std::string::npos; };
  if (run.command.empty() && !run.weights) return defect("has no command");
  if (run.weights && run.weights->program.empty()) {
    return defect(
        "has weights, and the program tidegate on the nodes is not known; give scaling.weights.program");
  }
  size_t size = 0;
  for (const std::string& word : run.command) size += word.size();
  if (size > kMaxScript) return defect("its command is longer than 1 MiB");
  if (std::any_of(run.command.begin(), run.command.end(), has_nul)) {
    return defect("its command has a NUL in it");
  }
  for (const auto& [name, value] : run.env) {
    if (name.empty() || name.find('=') != std::string::npos || has_nul(name) || has_nul(value)) {
      return defect(fmt::format("\"{}\" cannot be in an environment", name));
    }
  }
  if (run.grant.node.empty()) return defect("has no node");
  if (run.grant.milli != 1000) return defect("asks for a share of a device; Slurm gives whole devices only");
  if (!run.grant.partition.empty())
    return defect("asks for a partition of a device; Slurm gives whole devices only");
  return {};
}

}  // namespace plugins::launchers::slurm
