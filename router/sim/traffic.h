// Recorded inference traffic: calls by time, with the lengths of prompt and answer and, where the trace has
// them, the blocks of 512 tokens that prompts share.
//
// Pure: texts in, calls out. A row that is malformed, out of bounds or earlier than the one before it is left
// out, counted and named by file and line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "scheduler/io/loaded.h"

namespace router::sim {

inline constexpr uint32_t kTrafficBlockTokens = 512;
inline constexpr uint32_t kMaxCallTokens = 1u << 24;  // of a prompt, and of an answer

struct Call {
  conf::Duration at{};  // since the start of the trace
  uint32_t input = 0;   // tokens
  uint32_t output = 0;
  std::vector<uint64_t>
      blocks;  // of kTrafficBlockTokens each, the last may be shorter; empty: shares nothing
};

// azure: CSV of TIMESTAMP,ContextTokens,GeneratedTokens. mooncake: one JSON object per line with timestamp
// (ms), input_length, output_length and hash_ids.
enum class TrafficFormat : uint8_t { kAzure, kMooncake };

// azure for .csv, mooncake for all other names.
TrafficFormat TrafficFormatOf(std::string_view path);

struct TrafficWindow {
  conf::Duration from{};
  std::optional<conf::Duration> length;
  size_t max_calls = 0;  // 0: no bound
};

struct Traffic {
  std::vector<Call> calls;  // of the window, by time
  conf::Duration last{};    // the time of the last call of the trace, whatever the window
  scheduler::io::LineReport report;
};

Traffic ReadTraffic(std::string_view text, const std::string& file, TrafficFormat format,
                    const TrafficWindow& window = {});

}  // namespace router::sim
