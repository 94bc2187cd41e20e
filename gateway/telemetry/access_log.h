// AccessLog: one line of JSON for each sampled request that has ended, to a file or standard error. Never a prompt, an
// answer, a header or a key.
//
// A shard hands a record over under a short lock and never waits; a thread of its own renders and writes. The queue is
// bounded in bytes; a record that does not fit, or that cannot be written within a second, is dropped and counted.
//
// Owner: the process, which destroys it after the shards. Any thread may call every method.
#pragma once

#include <absl/status/status.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "conf/time.h"
#include "gateway/net/fd.h"

namespace gateway::telemetry {

// Empty texts and absent numbers are left out of the line.
struct AccessRecord {
  conf::TimePoint ended{};
  std::string request_id{};         // ours: as in the ledger, the routing log and traces
  std::string client_request_id{};  // the client's own
  std::string trace_id{};           // in hex, where tracing is on
  std::string client{};             // address
  std::string tenant{};
  std::string key_id{};
  std::string api{};
  std::string model{};         // as asked for
  std::string served_model{};  // the engine's name of it
  std::string replica{};
  int status = 0;        // sent; 0: none was
  std::string reason{};  // of the end, as in the ledger
  std::string code{};    // of the error
  std::string limit{};   // that refused it
  bool stream = false;
  uint64_t attempts = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t input_tokens = 0;
  uint64_t cached_tokens = 0;
  uint64_t output_tokens = 0;
  int64_t cost_micro_usd = 0;
  std::optional<conf::Duration> queued{};
  std::optional<conf::Duration> first_token{};
  conf::Duration total{};

  // About what it takes in memory.
  size_t bytes() const;
};

// A line with its end. Bytes that are not UTF-8 become U+FFFD; control characters are escaped.
std::string RenderAccess(const AccessRecord& record);

// Whether a request is among the logged part: the same for one id everywhere.
bool IsLogged(std::string_view request_id, double sample);

class AccessLog {
 public:
  static constexpr size_t kMaxQueuedBytes = size_t{4} << 20;

  struct Stats {
    uint64_t written = 0;
    uint64_t dropped_queue = 0;  // the queue was full
    uint64_t dropped_write = 0;  // the file or the terminal did not take them
  };

  AccessLog() = default;
  // Writes the queued records first, for a second at most.
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  // Where lines go from now on; empty: to standard error. The file is opened anew.
  void Configure(std::string file);
  // After a rotation: the file's name is opened anew.
  void Reopen();
  void Add(AccessRecord record);
  Stats stats() const;

 private:
  void Run();
  // How many of them were written.
  size_t Write(const std::vector<AccessRecord>& records, const std::string& file, bool reopen);
  absl::Status Put(std::string_view lines, const std::string& file);

  net::Fd fd_;            // the thread's; of the file
  bool failing_ = false;  // the thread's

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable wake_;
  std::string file_;
  bool reopen_ = false;
  std::vector<AccessRecord> queue_;
  size_t queued_bytes_ = 0;
  Stats stats_;
  bool closed_ = false;
  std::thread thread_;  // from the first record on
};

}  // namespace gateway::telemetry
