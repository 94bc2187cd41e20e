// LineCall: one line of a batch as a request, and its answer. Who sends it is given to the runner: the room
// `request`, through the pipeline that every request passes.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "conf/time.h"
#include "gateway/batches/line_result.h"
#include "gateway/net/task.h"

namespace gateway::batches {

struct LineCall {
  std::string tenant;
  std::string key;         // that created the batch; empty: the anonymous tenant
  std::string target;      // "/v1/chat/completions"
  std::string request_id;  // the client's own id, as the ledger has it: BATCH:LINE
  std::string body;
  // Is told how to cut the call short.
  std::function<void(std::function<void()>)> on_begun;
};

struct LineAnswer {
  int status = 0;  // 0: none came
  std::string request_id = {};
  std::string body = {};
  std::optional<conf::Duration> retry_after = {};
  std::optional<bool> should_retry = {};
  bool too_large = false;  // it was not kept
  std::optional<LineUse> use = {};
};

using SendLine = std::function<net::Task<LineAnswer>(LineCall)>;

// What follows from an answer.
enum class LineVerdict : uint8_t {
  kEnded,  // the answer is the line's result
  kWait,   // there was no room for it now: it waits, as often as it takes
  kRetry,  // it failed, and may succeed at another try
  kStop,   // the batch's key does not work any more
};
LineVerdict Judge(const LineAnswer& answer);
// The `code` of an error in OpenAI's form; empty where the body is none.
std::string ErrorCodeOf(const std::string& body);

}  // namespace gateway::batches
