// RequestPlaces: where in the segments a request stands, without a row for each: the index keeps the span of
// times of each piece of about kPieceBytes of a segment, and the id of a request tells its time
// (request_id.h). To find a request, one or two pieces are read.
//
// A part of the Index, in its database and its transactions; its thread's.
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

// A request as its records tell.
struct FoundRequest {
  uint64_t open_seq = 0;   // 0: it was refused before it was admitted
  uint64_t first_seq = 0;  // of its first record
  std::string tenant, key, model;
  bool settled = false;  // its close was found
  std::string version;   // of the close: the model's name at the engine
};

class RequestPlaces {
 public:
  static constexpr uint64_t kPieceBytes = 256 << 10;
  // Its records are looked for in at most this many bytes after its first one.
  static constexpr uint64_t kMaxScan = 64 << 20;

  RequestPlaces(std::string dir, sqlite::Database& db) : dir_(std::move(dir)), db_(db) {}
  static const char* Schema();

  // A record that the index applies, in order.
  void Add(const Tail::Entry& entry);
  // At the end of a transaction.
  absl::Status Save();
  // After a transaction that failed, and where another process has applied records meanwhile.
  void Restart();
  // The segments before the record `first` are removed.
  absl::Status Forget(uint64_t first);

  // Among applied records; nothing where there is no such request.
  absl::StatusOr<std::optional<FoundRequest>> Find(std::string_view request);
  // The version in the close of a request among the records from `after` + 1 to `last`; nothing: none is there.
  absl::StatusOr<std::optional<std::string>> ClosedBetween(std::string_view request, uint64_t after,
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
  bool changed_ = false;     // current_ is not saved as it is
};

}  // namespace gateway::ledger
