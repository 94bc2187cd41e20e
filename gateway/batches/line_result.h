// LineResult: how one line of a batch ended, and how a result file has it.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gateway::batches {

// Why a line has no answer: its batch ended before.
inline constexpr std::string_view kCodeCancelled = "batch_cancelled";
inline constexpr std::string_view kCodeExpired = "batch_expired";
constexpr bool IsUnsent(std::string_view code) {
  return code == kCodeCancelled || code == kCodeExpired;
}

// What a line used, as the ledger has it. Times are microseconds; -1: not known.
struct LineUse {
  int64_t total_us = -1;
  int64_t queue_us = -1;
  int64_t cost_micro_usd = 0;
};

// How a line ended: with an answer, or with the reason why there is none.
struct LineResult {
  std::string custom_id = {};
  int status = 0;  // of the answer; 0: there is none
  std::string request_id = {};
  std::string body = {};
  std::optional<LineUse> use = {};
  std::string code = {};  // where there is no answer
  std::string message = {};

  bool completed() const { return status >= 200 && status < 300; }
  bool unsent() const { return IsUnsent(code); }
};

// One line of JSON, with its end, in OpenAI's form. What it used is beside it, in response.tidegate.
std::string RenderResult(const LineResult& result, std::string_view id);
// Likewise in Anthropic's: `succeeded`, `errored`, `canceled` or `expired`.
std::string RenderMessageResult(const LineResult& result);

}  // namespace gateway::batches
