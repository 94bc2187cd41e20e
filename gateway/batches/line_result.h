// LineResult: how one line of a batch ended, and how a result file has it.
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace gateway::batches {

// Why a line has no answer: its batch ended before.
inline constexpr std::string_view kCodeCancelled = "batch_cancelled";
inline constexpr std::string_view kCodeExpired = "batch_expired";
constexpr bool IsUnsent(std::string_view code) {
  return code == kCodeCancelled || code == kCodeExpired;
}

// How a line ended: with an answer, or with the reason why there is none.
struct LineResult {
  std::string custom_id = {};
  int status = 0;  // of the answer; 0: there is none
  std::string request_id = {};
  std::string body = {};
  std::string code = {};  // where there is no answer
  std::string message = {};

  bool completed() const { return status >= 200 && status < 300; }
  bool unsent() const { return IsUnsent(code); }
};

// One line of JSON, with its end, in OpenAI's form.
std::string RenderResult(const LineResult& result, std::string_view id);
// Likewise in Anthropic's: `succeeded`, `errored`, `canceled` or `expired`.
std::string RenderMessageResult(const LineResult& result);

}  // namespace gateway::batches
