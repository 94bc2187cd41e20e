#include "bench/replay/reconcile.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "conf/json_parse.h"

namespace bench {
namespace {

using Json = nlohmann::json;

uint64_t Number(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<uint64_t>() : 0;
}

// `suffix`: "input" is called so in the ledger, "input_tokens" in what commands print.
void AddRow(const Json& row, const std::string& suffix, uint64_t calls, TokensByModel& sums) {
  const auto model = row.find("model");
  Tokens& tokens = sums[model != row.end() && model->is_string() ? model->get<std::string>() : ""];
  tokens.calls += calls;
  tokens.input += Number(row, "input" + suffix);
  tokens.cached += Number(row, "cached" + suffix);
  tokens.output += Number(row, "output" + suffix);
}

}  // namespace

absl::StatusOr<TokensByModel> ReadLedger(const std::string& dir) {
  TokensByModel sums;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream file(entry.path());
    std::string line;
    while (std::getline(file, line)) {
      if (line.find("\"kind\":\"close\"") == std::string::npos) continue;
      const Json record = conf::ParseJson(line);
      if (record.is_object()) AddRow(record, "", 1, sums);  // the last line may be half written
    }
  }
  if (error) return absl::NotFoundError(fmt::format("{}: {}", dir, error.message()));
  return sums;
}

absl::StatusOr<TokensByModel> RunUsage(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return absl::UnavailableError(fmt::format("{}: cannot be run", command));
  std::string text;
  std::array<char, 4096> buffer;
  while (const size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), n);
  const int status = pclose(pipe);
  if (status != 0) {
    return absl::UnavailableError(fmt::format("{}: exit code {}", command, WEXITSTATUS(status)));
  }
  const Json rows = conf::ParseJson(text);
  if (!rows.is_array())
    return absl::InvalidArgumentError(fmt::format("{}: printed no rows of usage", command));
  TokensByModel sums;
  for (const Json& row : rows) {
    if (row.is_object()) AddRow(row, "_tokens", Number(row, "requests"), sums);
  }
  return sums;
}

TokensByModel Difference(const TokensByModel& before, const TokensByModel& after) {
  TokensByModel added;
  for (const auto& [model, now] : after) {
    const auto found = before.find(model);
    const Tokens then = found == before.end() ? Tokens{} : found->second;
    const Tokens tokens{now.calls - then.calls, now.input - then.input, now.cached - then.cached,
                        now.output - then.output};
    if (tokens.input + tokens.output > 0) added[model] = tokens;
  }
  return added;
}

std::string Compare(const TokensByModel& client, const TokensByModel& gateway, bool& equal) {
  std::set<std::string> models;
  for (const auto& [model, tokens] : client) models.insert(model);
  for (const auto& [model, tokens] : gateway) models.insert(model);
  std::string out =
      fmt::format("{:<32}{:>16}{:>16}{:>12}\n", "reconciled", "client", "gateway", "difference");
  equal = true;
  for (const std::string& model : models) {
    const auto row = [&](std::string_view what, uint64_t Tokens::* field) {
      const auto of = [&](const TokensByModel& from) {
        const auto found = from.find(model);
        return found == from.end() ? 0 : found->second.*field;
      };
      const uint64_t here = of(client);
      const uint64_t there = of(gateway);
      equal = equal && here == there;
      out += fmt::format("{:<32}{:>16}{:>16}{:>12}\n", fmt::format("{} {}", model, what), here, there,
                         static_cast<int64_t>(there - here));
    };
    row("input", &Tokens::input);
    row("cached", &Tokens::cached);
    row("output", &Tokens::output);
  }
  return out;
}

}  // namespace bench
