// Batch: the state of one batch: its input, its owner and its progress.
//
// The store has it as it was at its last change of state. The counts of a running batch follow from its result
// files (result_files.h), which are the truth of what is done; those of a shared one from its parts.
//
// A value: pure, any thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "conf/words.h"
#include "gateway/batches/result_part.h"
#include "router/facts/api.h"

namespace gateway::batches {

inline constexpr std::string_view kMessagesUrl = "/v1/messages";  // the endpoint of batches of messages

// The completion window that SDKs ask for.
inline constexpr std::string_view kUsualWindow = "24h";

// Of the calls that a batch may make; nothing: it may not.
std::optional<router::Api> ApiOf(std::string_view endpoint);

enum class BatchState : uint8_t {
  kValidating,
  kInProgress,
  kCancelling,
  kCompleted,  // this and those below have ended
  kFailed,
  kExpired,
  kCancelled,
};
conf::Words<BatchState> WordsOf(BatchState);
inline bool HasEnded(BatchState state) {
  return state >= BatchState::kCompleted;
}

// What is wrong with a line, or with the batch.
struct BatchProblem {
  std::string code = {};  // stable
  std::string message = {};
  std::string param = {};             // member of the line; empty: the line as a whole
  std::optional<uint64_t> line = {};  // from 1

  bool operator==(const BatchProblem&) const = default;
};

// Of the answered lines, as engines reported it.
struct BatchUsage {
  uint64_t input = 0;
  uint64_t cached = 0;
  uint64_t output = 0;
  uint64_t reasoning = 0;

  void Add(const BatchUsage& other);
  bool operator==(const BatchUsage&) const = default;
};

struct LineCounts {
  uint64_t total = 0;
  uint64_t completed = 0;
  uint64_t failed = 0;
  uint64_t unsent = 0;  // of the failed: the batch ended before they were done

  bool operator==(const LineCounts&) const = default;
};

struct Batch {
  std::string id = {};
  std::string tenant = {};
  std::string key = {};       // that created it; empty: the anonymous tenant
  std::string endpoint = {};  // "/v1/chat/completions"
  std::string input_file = {};
  // Ids of the result files (of messages, all results are in the first); while it runs, those that they will
  // have. Empty: there is none.
  std::string output_file = {};
  std::string error_file = {};
  std::string sealed_by = {};  // as StoredFile has it, of these two
  BatchState state = BatchState::kValidating;
  conf::TimePoint created = {};
  conf::TimePoint expires = {};
  std::string window = std::string(kUsualWindow);  // from the creation to that, as it was asked for
  std::optional<conf::TimePoint> in_progress = {};
  std::optional<conf::TimePoint> cancelling = {};
  std::optional<conf::TimePoint> finalizing = {};
  std::optional<conf::TimePoint> ended = {};
  LineCounts counts = {};
  BatchUsage usage = {};
  std::map<std::string, std::string> metadata = {};
  std::optional<conf::Duration> output_age = {};  // after which its results are removed
  std::vector<BatchProblem> problems = {};

  // Of a shared batch alone.
  std::string runner = {};  // the id of the gateway that runs it, or ran it last; empty: any may begin
  uint64_t epoch = 0;       // which runner of it that is, from 1
  // Its results that count, in the bucket, until it ends.
  ResultParts output_parts = {};
  ResultParts error_parts = {};
  std::string paused = {};  // why it does not go on now; empty: it does
  bool shared = false;      // not stored: its kind says so

  bool of_messages() const;  // made by Anthropic's API, and shown by it alone
};

std::string EncodeBatch(const Batch& batch);
absl::StatusOr<Batch> DecodeBatch(std::string_view json);

// As OpenAI's API shows it.
nlohmann::ordered_json ShowBatch(const Batch& batch);

std::string_view NameOf(BatchState state);

}  // namespace gateway::batches
