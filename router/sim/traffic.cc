#include "router/sim/traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "scheduler/io/lines.h"

namespace router::sim {
namespace {

// A call, or what is wrong with its line.
struct Row {
  std::optional<Call> call{};
  std::string defect{};
};

constexpr std::string_view kTokens = "a number of tokens, at most 16777216";
constexpr conf::Duration kLongestTrace = std::chrono::hours(24 * 366 * 100);

std::optional<uint32_t> Tokens(std::string_view text) {
  const std::optional<uint32_t> tokens = conf::ReadNumber<uint32_t>(text);
  return tokens <= kMaxCallTokens ? tokens : std::nullopt;
}

constexpr std::string_view kAzureHeader = "TIMESTAMP,";

// "2023-11-16 18:15:46.6805900", UTC, or with its zone: "2024-05-10 00:00:00.009930+00:00".
std::optional<conf::TimePoint> AzureTime(std::string_view text) {
  const std::optional<conf::TimePoint> zoned = conf::ParseTime(text);
  return zoned ? zoned : conf::ParseTime(std::string(text) + "Z");
}

// "2023-11-16 18:15:46.6805900,374,44"; the time counts from the first line's.
class AzureLines {
 public:
  Row Read(std::string_view line) {
    const size_t first = line.find(',');
    const size_t second = first == std::string_view::npos ? first : line.find(',', first + 1);
    if (second == std::string_view::npos) {
      return {.defect = "expected TIMESTAMP,ContextTokens,GeneratedTokens"};
    }
    const std::optional<conf::TimePoint> at = AzureTime(line.substr(0, first));
    if (!at) return {.defect = "TIMESTAMP: expected a time such as 2023-11-16 18:15:46.68"};
    const auto input = Tokens(line.substr(first + 1, second - first - 1));
    if (!input) return {.defect = fmt::format("ContextTokens: expected {}", kTokens)};
    const auto output = Tokens(line.substr(second + 1));
    if (!output) return {.defect = fmt::format("GeneratedTokens: expected {}", kTokens)};
    if (!begin_) begin_ = at;
    int64_t since = 0;
    if (__builtin_sub_overflow(conf::ToUnixNanos(*at), conf::ToUnixNanos(*begin_), &since) ||
        conf::Duration(since) > kLongestTrace) {
      return {.defect = "TIMESTAMP: expected a time within 100 years of the first row's"};
    }
    return {.call = Call{.at = conf::Duration(since), .input = *input, .output = *output, .blocks = {}}};
  }

 private:
  std::optional<conf::TimePoint> begin_;
};

Row ReadMooncake(std::string_view line) {
  const nlohmann::json object = conf::ParseJson(line);
  if (!object.is_object()) return {.defect = "expected a JSON object"};
  const auto number = [&](const char* key, uint64_t most) -> std::optional<uint64_t> {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number_unsigned() || found->get<uint64_t>() > most)
      return std::nullopt;
    return found->get<uint64_t>();
  };
  const auto at = number("timestamp", static_cast<uint64_t>(kLongestTrace / std::chrono::milliseconds(1)));
  if (!at) return {.defect = "timestamp: expected milliseconds since the start of the trace"};
  const auto input = number("input_length", kMaxCallTokens);
  if (!input) return {.defect = fmt::format("input_length: expected {}", kTokens)};
  const auto output = number("output_length", kMaxCallTokens);
  if (!output) return {.defect = fmt::format("output_length: expected {}", kTokens)};
  Call call{.at = std::chrono::milliseconds(*at),
            .input = static_cast<uint32_t>(*input),
            .output = static_cast<uint32_t>(*output),
            .blocks = {}};
  const size_t blocks = (call.input + kTrafficBlockTokens - 1) / kTrafficBlockTokens;
  const auto ids = object.find("hash_ids");
  if (ids == object.end() || !ids->is_array() || ids->size() != blocks) {
    return {.defect = fmt::format("hash_ids: expected {} numbers, one for each {} tokens of input_length",
                                  blocks, kTrafficBlockTokens)};
  }
  call.blocks.reserve(blocks);
  for (const auto& id : *ids) {
    if (!id.is_number_unsigned()) return {.defect = "hash_ids: expected numbers that are not negative"};
    call.blocks.push_back(id.get<uint64_t>());
  }
  return {.call = std::move(call)};
}

}  // namespace

TrafficFormat TrafficFormatOf(std::string_view path) {
  return path.ends_with(".csv") ? TrafficFormat::kAzure : TrafficFormat::kMooncake;
}

Traffic ReadTraffic(std::string_view text, const std::string& file, TrafficFormat format,
                    const TrafficWindow& window) {
  Traffic traffic;
  AzureLines azure;
  scheduler::io::ForEachLine(text, [&](std::string_view line, int number) {
    if (line.empty() || (number == 1 && line.starts_with(kAzureHeader))) return;
    ++traffic.report.lines;
    Row row = format == TrafficFormat::kAzure ? azure.Read(line) : ReadMooncake(line);
    if (row.call && row.call->at < traffic.last) row = {.defect = "is earlier than the row before it"};
    if (!row.call) {
      ++traffic.report.left_out;
      traffic.report.Add(
          {.file = file, .pointer = {}, .line = number, .value = {}, .message = std::move(row.defect)});
      return;
    }
    const conf::Duration at = traffic.last = row.call->at;
    if (at < window.from || (window.length && at - window.from >= *window.length)) return;
    if (window.max_calls > 0 && traffic.calls.size() == window.max_calls) return;
    traffic.calls.push_back(*std::move(row.call));
  });
  return traffic;
}

}  // namespace router::sim
