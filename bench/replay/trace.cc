#include "bench/replay/trace.h"

#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

namespace bench {
namespace {

// "2023-11-16 18:15:46.6805900,374,44"; the time counts from the first line's.
class AzureLines {
 public:
  std::optional<Call> Read(const std::string& line) {
    const size_t first = line.find(',');
    const size_t second = line.find(',', first + 1);
    if (first == std::string::npos || second == std::string::npos) return std::nullopt;
    std::string time = line.substr(0, first) + "Z";
    std::replace(time.begin(), time.end(), ' ', 'T');
    const std::optional<conf::TimePoint> at = conf::ParseTime(time);
    Call call;
    if (!at || !absl::SimpleAtoi(line.substr(first + 1, second - first - 1), &call.input) ||
        !absl::SimpleAtoi(line.substr(second + 1), &call.output)) {
      return std::nullopt;
    }
    if (!begin_) begin_ = at;
    call.at = *at - *begin_;
    return call;
  }

 private:
  std::optional<conf::TimePoint> begin_;
};

std::optional<Call> ReadMooncake(const std::string& line) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
  const auto number = [&](const char* key) -> std::optional<uint64_t> {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
    return found->get<uint64_t>();
  };
  if (!object.is_object() || !object.contains("hash_ids")) return std::nullopt;
  const auto at = number("timestamp");
  const auto input = number("input_length");
  const auto output = number("output_length");
  if (!at || !input || !output) return std::nullopt;
  Call call{.at = std::chrono::milliseconds(*at),
            .input = static_cast<uint32_t>(*input),
            .output = static_cast<uint32_t>(*output),
            .blocks = {}};
  for (const auto& id : object["hash_ids"]) {
    if (!id.is_number_unsigned()) return std::nullopt;
    call.blocks.push_back(id.get<uint64_t>());
  }
  if ((call.input + kBlockTokens - 1) / kBlockTokens != call.blocks.size()) return std::nullopt;
  return call;
}

}  // namespace

absl::StatusOr<std::vector<Call>> ReadTrace(const std::string& path, TraceFormat format,
                                            const TraceWindow& window) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(fmt::format("{}: cannot be opened", path));
  std::vector<Call> calls;
  AzureLines azure;
  conf::Duration last{};
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || (format == TraceFormat::kAzure && number == 1)) continue;
    std::optional<Call> call = format == TraceFormat::kAzure ? azure.Read(line) : ReadMooncake(line);
    if (!call)
      return absl::InvalidArgumentError(fmt::format("{}:{}: not a line of this format", path, number));
    if (call->at < last) {
      return absl::InvalidArgumentError(fmt::format("{}:{}: earlier than the line before it", path, number));
    }
    last = call->at;
    if (call->at < window.from || (window.length && call->at >= window.from + *window.length)) continue;
    calls.push_back(*std::move(call));
  }
  if (window.max_calls > 0 && calls.size() > window.max_calls) calls.resize(window.max_calls);
  return calls;
}

}  // namespace bench
