#include "gateway/api/usage_counts.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace gateway::api {
namespace {

constexpr size_t kMaxObject = 4096;  // no engine's usage object is a tenth of this
// No call has more: neither a body of 64 MiB, nor 128 choices of a million tokens each.
constexpr uint64_t kMostTokens = uint64_t{1} << 28;
constexpr double kMostSeconds = 1e7;  // no upload is longer; sums stay sums

using Object = simdjson::ondemand::object;

// Reads an unsigned count into `into`; anything else leaves it. Some servers write counts as 12.0.
bool Count(simdjson::simdjson_result<simdjson::ondemand::value> value, uint64_t& into) {
  constexpr uint64_t kMost = uint64_t{1} << 53;  // sums stay sums
  uint64_t count = 0;
  if (value.get_uint64().get(count) == simdjson::SUCCESS) {
    into = std::min(count, kMost);
    return true;
  }
  double number = 0;
  if (value.get_double().get(number) != simdjson::SUCCESS || !(number >= 0)) return false;
  if (number != std::floor(number)) return false;
  into = static_cast<uint64_t>(std::min(number, static_cast<double>(kMost)));
  return true;
}

void ReadDetails(simdjson::simdjson_result<simdjson::ondemand::value> value, std::string_view name,
                 uint64_t& into) {
  Object details;
  if (value.get_object().get(details) != simdjson::SUCCESS) return;
  for (auto field : details) {
    std::string_view key;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return;
    if (key == name) Count(field.value(), into);
  }
}

struct Counts {
  Usage usage;
  uint64_t total = 0;
  uint64_t cache_read = 0;
  uint64_t cache_created = 0;
  bool any = false;
};

// Seconds of sound, by which transcriptions are counted.
bool Seconds(simdjson::simdjson_result<simdjson::ondemand::value> value, uint64_t& milliseconds) {
  double seconds = 0;
  if (value.get_double().get(seconds) != simdjson::SUCCESS || !(seconds >= 0)) return false;
  milliseconds = static_cast<uint64_t>(std::ceil(std::min(seconds, kMostSeconds) * 1000));
  return true;
}

bool ReadCounts(Object object, Counts& counts) {
  for (auto field : object) {
    std::string_view key;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return false;
    auto value = field.value();
    if (key == "prompt_tokens" || key == "input_tokens") {
      counts.any |= Count(value, counts.usage.input);
    } else if (key == "completion_tokens" || key == "output_tokens") {
      counts.any |= Count(value, counts.usage.output);
    } else if (key == "total_tokens") {
      counts.any |= Count(value, counts.total);
    } else if (key == "prompt_tokens_details" || key == "input_tokens_details") {
      ReadDetails(value, "cached_tokens", counts.usage.cached_input);
    } else if (key == "completion_tokens_details" || key == "output_tokens_details") {
      ReadDetails(value, "reasoning_tokens", counts.usage.reasoning);
    } else if (key == "prompt_cache_hit_tokens") {  // DeepSeek's
      Count(value, counts.usage.cached_input);
    } else if (key == "seconds") {
      counts.any |= Seconds(value, counts.usage.audio_ms);
    } else if (key == "cache_read_input_tokens") {
      Count(value, counts.cache_read);
    } else if (key == "cache_creation_input_tokens") {
      Count(value, counts.cache_created);
    }
  }
  return true;
}

}  // namespace

std::optional<Usage> ReadUsage(std::string_view object) {
  if (object.size() > kMaxObject) return std::nullopt;
  std::array<char, kMaxObject + simdjson::SIMDJSON_PADDING> padded;
  std::copy(object.begin(), object.end(), padded.begin());
  std::fill_n(padded.begin() + static_cast<ptrdiff_t>(object.size()), simdjson::SIMDJSON_PADDING, ' ');
  thread_local simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  if (parser.iterate(padded.data(), object.size(), padded.size()).get(document) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  Object fields;
  Counts counts;
  if (document.get_object().get(fields) != simdjson::SUCCESS || !ReadCounts(fields, counts) || !counts.any) {
    return std::nullopt;
  }
  Usage usage = counts.usage;
  const uint64_t highest =
      std::max({usage.input, usage.output, counts.total, counts.cache_read, counts.cache_created});
  if (highest > kMostTokens) return std::nullopt;  // an engine that miscounts must not use a budget up
  if (counts.cache_read > 0 || counts.cache_created > 0) {
    usage.input += counts.cache_read + counts.cache_created;
    usage.cached_input = counts.cache_read;
    usage.cache_written = counts.cache_created;
  }
  usage.total_alone = counts.total > 0 && usage.input == 0 && usage.output == 0;
  if (usage.input == 0 && counts.total > usage.output) usage.input = counts.total - usage.output;
  if (usage.output == 0 && counts.total > usage.input) usage.output = counts.total - usage.input;
  usage.cached_input = std::min(usage.cached_input, usage.input);
  usage.reasoning = std::min(usage.reasoning, usage.output);
  return usage;
}

}  // namespace gateway::api
