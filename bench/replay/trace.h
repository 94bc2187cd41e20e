// Trace: the calls of a recorded hour of inference, by time: how long each prompt and answer was, and, where
// the trace tells it, which blocks of 512 tokens prompts have in common.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"

namespace bench {

inline constexpr uint32_t kBlockTokens = 512;

struct Call {
  conf::Duration at{};  // since the begin of the trace
  uint32_t input = 0;   // tokens
  uint32_t output = 0;
  std::vector<uint64_t> blocks;  // of kBlockTokens each, the last one not full; empty: shares nothing
};

// azure: CSV of TIMESTAMP,ContextTokens,GeneratedTokens. mooncake: a JSON object a line with timestamp (ms),
// input_length, output_length and hash_ids.
enum class TraceFormat : uint8_t { kAzure, kMooncake };

struct TraceWindow {
  conf::Duration from{};
  std::optional<conf::Duration> length;
  size_t max_calls = 0;  // 0: no bound
};

// The calls that begin in the window; the file must be in order of time. InvalidArgument names the line that
// cannot be read.
absl::StatusOr<std::vector<Call>> ReadTrace(const std::string& path, TraceFormat format,
                                            const TraceWindow& window);

}  // namespace bench
