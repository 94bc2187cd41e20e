// RequestPlaces: finds a request in the segments, without a row for each request. The index keeps the span of times
// of each piece of about kPieceBytes of a segment, and the id of a request has its time (request_id.h). To find a
// request, one or two pieces are read.
//
// A part of the Index, in its database, its transactions and its thread.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/ledger/tail.h"
#include "gateway/store/sqlite.h"

namespace gateway::ledger {

// The model and replica that served a request, by its close.
struct ServedBy {
  std::string version;  // the model's name at the engine; empty: nothing
  std::string replica;
};
ServedBy ServedByOf(const LineParts& close);

// A request, read from its records.
struct FoundRequest {
  uint64_t open_seq = 0;   // 0: it was refused before it was admitted
  uint64_t first_seq = 0;  // the number of its first record
  std::string tenant, key, model;
  bool settled = false;  // its close was found
  ServedBy served;
};

class RequestPlaces {
 public:
  static constexpr uint64_t kPieceBytes = 256 << 10;
  // A request's records are searched for in at most this many bytes after its first one.
  static constexpr uint64_t kMaxScan = 64 << 20;

  RequestPlaces(std::string dir, sqlite::Database& db) : dir_(std::move(dir)), db_(db) {}
  static const char* Schema();

  // Called for each record that the index applies, in order.
  void Add(const Tail::Entry& entry);
  // Called at the end of a transaction.
  absl::Status Save();
  // Called after a failed transaction, and after another process has applied records.
  void Restart();
  // Removes the pieces of segments before the record `first`.
  absl::Status Forget(uint64_t first);

  // Searches applied records; none if there is no such request.
  absl::StatusOr<std::optional<FoundRequest>> Find(std::string_view request);
  // Reads it from the close among the records from `after` + 1 to `last`; absent if there is no close.
  absl::StatusOr<std::optional<ServedBy>> ClosedBetween(std::string_view request, uint64_t after,
                                                        uint64_t last);
  // Calls `visit` with the records from `from` to `last` that name the request, until it returns false or
  // kMaxScan bytes are read.
  using Visit = std::function<bool(const LineParts& parts, std::string_view line)>;
  absl::Status ForEachOf(std::string_view request, uint64_t from, uint64_t last, const Visit& visit);

 private:
  struct Piece {
    uint64_t first_seq = 0;
    uint64_t segment = 0;
    uint64_t offset = 0;  // bytes
    int64_t min_ms = std::numeric_limits<int64_t>::max();
    int64_t max_ms = 0;
  };
  absl::Status Scan(std::string_view request, uint64_t segment, uint64_t offset, uint64_t last,
                    uint64_t max_bytes, const Visit& visit) const;

  const std::string dir_;
  sqlite::Database& db_;
  std::optional<Piece> current_;
  std::vector<Piece> full_;  // not saved yet
  bool changed_ = false;     // current_ has changed since it was saved
};

}  // namespace gateway::ledger
