// FeedbackTable: what applications have said of answers, as the index keeps it: one row for each key, request
// and name, the latest. A part of the Index, in its database and its transactions; its thread's.
//
// The version that served a request is known when the request has ended. Feedback that came before waits for
// the close, at most kMaxWaiting requests at once; of further ones the version stays unknown.
#pragma once

#include <absl/container/flat_hash_set.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/ledger/feedback.h"
#include "gateway/ledger/request_places.h"
#include "gateway/store/sqlite.h"

namespace gateway::ledger {

enum class FeedbackBy : uint8_t { kTenant, kKey, kModel, kVersion, kHour, kDay };
std::string_view Name(FeedbackBy by);
std::optional<FeedbackBy> ParseFeedbackBy(std::string_view name);

struct FeedbackQuery {
  std::vector<FeedbackBy> by = {};                         // beside the name
  int64_t since_us = 0;                                    // by the time of the feedback
  int64_t until_us = std::numeric_limits<int64_t>::max();  // not included
  std::string tenant = {};                                 // this tenant and those below it; empty: all
  std::string model = {};                                  // empty: all
};

// Feedback of one name and type in a group; of text, of one value.
struct FeedbackSum {
  std::vector<std::string> group;  // in the order of `by`; an hour or a day as RFC 3339 of its begin
  std::string name;
  FeedbackType type = FeedbackType::kBoolean;
  std::string text;      // kText: the value
  int64_t count = 0;     // of requests, each key's latest
  int64_t positive = 0;  // kBoolean: true
  double sum = 0;        // kNumber
  double min = 0;
  double max = 0;
};

// A row as it is kept, with the number and the time of its record.
struct KeptFeedback {
  Feedback feedback;
  uint64_t seq = 0;
  int64_t time_us = 0;
};

class FeedbackTable {
 public:
  static constexpr size_t kMaxWaiting = 100'000;

  FeedbackTable(sqlite::Database& db, RequestPlaces& places) : db_(db), places_(places) {}
  static const char* Schema();

  // A record of the kind kFeedback that the index applies; anything else in its detail is passed over.
  absl::Status Add(const Record& record);
  // Whether some feedback waits for the ends of requests.
  bool Waits() const { return !waiting_.empty(); }
  // A close that the index applies.
  absl::Status OnClose(std::string_view request, std::string_view version);
  // After a transaction that failed, where another process has applied records meanwhile, and at the begin.
  absl::Status Restart();
  // The records before `first` are removed.
  absl::Status Forget(uint64_t first);

  // Ordered by group, name, type and text.
  absl::StatusOr<std::vector<FeedbackSum>> Sums(const FeedbackQuery& query);
  // Of a request, by name and key; at most `most`.
  absl::StatusOr<std::vector<KeptFeedback>> OfRequest(std::string_view request, size_t most);

 private:
  sqlite::Database& db_;
  RequestPlaces& places_;
  absl::flat_hash_set<std::string> waiting_;  // ids of requests
};

}  // namespace gateway::ledger
