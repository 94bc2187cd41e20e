// Section `ledger`: the durability of the records, their retention, and their sinks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "conf/secret.h"
#include "conf/time.h"
#include "gateway/config/types.h"

namespace gateway::config {

// grouped: a crash of the machine loses at most one commit_interval. strict: nothing is forwarded before its
// open record is on disk.
enum class Durability : uint8_t { kGrouped, kStrict };

struct Retention {  // by whole segments, the oldest first; absent: kept for ever
  std::optional<conf::Duration> age;
  std::optional<uint64_t> bytes;
};

struct Checkpoint {  // whichever comes first
  uint64_t records = 10000;
  conf::Duration interval = std::chrono::minutes(1);
};

struct FileSink {
  std::string path;
};

struct WebhookSink {
  Url url;
  std::vector<SecretHeader> headers;
  ClientTls tls;
  conf::Duration timeout = std::chrono::seconds(10);
};

struct SyslogSink {
  std::string path;        // of a unix datagram socket; empty: by network
  Url url;                 // udp or tcp, without a path
  uint32_t facility = 16;  // RFC 5424; 16 is local0
};

struct Sink {
  std::string name;
  std::variant<FileSink, WebhookSink, SyslogSink> to;
  uint32_t batch_records = 500;
  conf::Duration batch_interval = std::chrono::seconds(1);
  conf::Duration max_backoff = std::chrono::minutes(1);
};

struct Ledger {
  Durability durability = Durability::kGrouped;
  conf::Duration commit_interval = std::chrono::milliseconds(20);
  uint64_t segment_bytes = 64 << 20;
  conf::Duration segment_age = std::chrono::hours(24);
  uint32_t open_requests = 11'000;      // under way or waiting, over all threads; see OpenRequestsPerThread
  uint64_t min_free_bytes = 256 << 20;  // of the disk; below it new work is refused with 503
  Retention retention;
  Checkpoint checkpoint;
  std::vector<Sink> sinks;
  // Master keys of stored prompts and answers: the first wraps the tenants' keys, the others, which came
  // before it, unwrap them. Empty: one in state_dir.
  std::vector<conf::Secret> content_key;
};

void Bind(conf::Object& object, Ledger& out);

// Connections are spread over threads at random, so no thread has fewer places than kLeastOpenPerThread.
inline constexpr uint32_t kLeastOpenPerThread = 4096;
uint32_t OpenRequestsPerThread(const Ledger& ledger, uint32_t threads);

}  // namespace gateway::config
