// The metrics of engines, and where to read them: one adapter for each engine, pure functions of a scrape's text.
//
// Engines change the names of their metrics, and start without some of them: a value that is absent, not a number,
// negative or out of its range is left out, and is never an error. Several engines behind one address (data-parallel
// ranks) are added up; tensor-parallel ranks, which report the same, count once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plugins::engines {

struct EngineReport {
  std::optional<double> running{};      // requests in the batch
  std::optional<double> waiting{};      // requests in the engine's own queue
  std::optional<double> kv_use{};       // part of the KV cache in use, 0 to 1
  std::optional<double> kv_tokens{};    // tokens that the KV cache holds
  std::optional<double> max_running{};  // requests that can run at a time
  std::optional<double>
      prefix_queries{};                 // prompt tokens looked up in the prefix cache since the engine began
  std::optional<double> prefix_hits{};  // of these, found
  std::optional<uint32_t> max_lora{};   // adapters that can be loaded at a time
  std::vector<std::string> lora_running{};
  std::vector<std::string> lora_waiting{};
  std::optional<double> started_at{};  // when its process began, Unix seconds

  // Whether the scrape has everything that the router needs: load, and the use or the size of the cache.
  bool complete() const { return running && waiting && (kv_use || kv_tokens); }
  void FillFrom(EngineReport other);  // takes the values that this one lacks
};

struct EngineSource {
  std::string_view path;  // "/metrics"
  EngineReport (*read)(std::string_view body);
};

struct EngineAdapter {
  std::string_view name;  // as configurations write it
  // Asked in this order until the report is complete; a path that an engine was started without adds nothing.
  std::span<const EngineSource> sources;
};

std::span<const EngineAdapter> EngineAdapters();
// Null: an engine that says nothing of itself, such as a provider's.
const EngineAdapter* FindEngineAdapter(std::string_view name);

}  // namespace plugins::engines
