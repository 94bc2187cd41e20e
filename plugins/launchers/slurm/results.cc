#include "plugins/launchers/slurm/results.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "conf/json_parse.h"
#include "gateway/net/files.h"
#include "plugins/launchers/wrapper/protocol.h"

namespace plugins::launchers::slurm {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSuffix = ".result";
constexpr size_t kMaxFile = 4 * static_cast<size_t>(wrapper::kBlockBytes);

std::optional<Mark> MarkOf(std::string_view content) {
  const Json line = conf::ParseJson(content.substr(0, content.find('\n')));
  if (!line.is_object()) return std::nullopt;
  const auto mark = line.find("mark");
  return mark == line.end() || !mark->is_string() ? std::nullopt : ReadMark(mark->get<std::string>());
}

}  // namespace

std::string ResultPath(const std::string& logs, const std::string& id) {
  return logs.empty() ? std::string() : fmt::format("{}/{}{}", logs, id, kSuffix);
}

std::map<std::string, Result> FindResults(const std::string& logs, const std::string& state) {
  std::map<std::string, Result> results;
  if (logs.empty()) return results;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(logs, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.ends_with(kSuffix)) continue;
    const absl::StatusOr<std::string> content = gateway::net::ReadFile(entry->path(), kMaxFile);
    if (!content.ok()) continue;
    std::optional<Mark> mark = MarkOf(*content);
    RunResult times = ParseResult(*content);
    if (!mark || mark->state != state || !times.end) continue;
    results.emplace(name.substr(0, name.size() - kSuffix.size()), Result{*std::move(mark), std::move(times)});
  }
  return results;
}

}  // namespace plugins::launchers::slurm
