// What engines report about themselves, and where: one adapter each, pure functions of a scrape's text.
//
// Engines change the names of their metrics, and start without some of them: what is absent, not a number,
// negative or out of its range is left out, and never an error. One that runs several engines behind one
// address (data parallel ranks) is added up; tensor-parallel ranks, which say the same thing, count once.
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

  // What is to be known between two scrapes: load, and how much of the cache it takes or how much there is.
  bool complete() const { return running && waiting && (kv_use || kv_tokens); }
  void FillFrom(EngineReport other);  // what it does not know itself
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
