// FeedbackTable: the feedback of applications in the index: one row, the latest, for each key, request and name. A
// part of the Index, in its database, its transactions and its thread.
//
// The version that served a request is known when the request has ended. Feedback that arrives earlier waits for
// the close, for at most kMaxWaiting requests at once; for further ones the version stays unknown.
#pragma once

#include <absl/container/flat_hash_set.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <array>
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

enum class FeedbackBy : uint8_t { kTenant, kKey, kModel, kVersion, kReplica, kHour, kDay };
std::string_view Name(FeedbackBy by);
std::optional<FeedbackBy> ParseFeedbackBy(std::string_view name);

struct FeedbackQuery {
  std::vector<FeedbackBy> by = {};                         // besides the name
  int64_t since_us = 0;                                    // by the time of the feedback
  int64_t until_us = std::numeric_limits<int64_t>::max();  // not included
  std::string tenant = {};                                 // this tenant and those below it; empty: all
  std::string model = {};                                  // empty: all
};

// The feedback of one name and type in a group; for text, of one value.
struct FeedbackSum {
  std::vector<std::string> group;  // in the order of `by`; an hour or a day as RFC 3339 of its beginning
  std::string name;
  FeedbackType type = FeedbackType::kBoolean;
  std::string text;      // kText: the value
  int64_t count = 0;     // the latest feedback of each key and request
  int64_t positive = 0;  // kBoolean: true
  double sum = 0;        // kNumber
  double min = 0;
  double max = 0;

  // Adds the sums of another one of the same group, name, type and text.
  FeedbackSum& operator+=(const FeedbackSum& other);
};

// The sums of one hour for one combination of texts. Gateways exchange these.
inline constexpr size_t kFeedbackTexts = 7;
struct FeedbackCell {
  std::array<std::string, kFeedbackTexts> of{};  // tenant, key, model, version, replica, name, text
  FeedbackType type = FeedbackType::kBoolean;
  int64_t count = 0;
  int64_t positive = 0;
  double sum = 0;
  double min = 0;
  double max = 0;

  bool operator==(const FeedbackCell&) const = default;
};

// The sums for `query` from the table or SELECT `from` of `db`, with the columns time_us, tenant, key, model, version,
// replica, name, type, text, count, positive, sum, min and max. Ordered by group, name, type and text.
absl::StatusOr<std::vector<FeedbackSum>> SelectFeedback(sqlite::Database& db, const FeedbackQuery& query,
                                                        const std::string& from);

// A row of the table, with the number and the time of its record.
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

  // Adds a record of the kind kFeedback that the index applies; skips it if its detail is not feedback.
  absl::Status Add(const Record& record);
  // Whether some feedback waits for the end of its request.
  bool Waits() const { return !waiting_.empty(); }
  // Called for each close that the index applies, with the number of its record.
  absl::Status OnClose(std::string_view request, const ServedBy& served, uint64_t seq);
  // Called at the beginning, after a failed transaction, and after another process has applied records.
  absl::Status Restart();
  // Removes the feedback of records before `first`.
  absl::Status Forget(uint64_t first);

  // Ordered by group, name, type and text.
  absl::StatusOr<std::vector<FeedbackSum>> Sums(const FeedbackQuery& query);
  // The hours (since 1970) whose sums have changed after the record `seq`, and all hours that have sums; in order.
  absl::StatusOr<std::vector<int64_t>> HoursChangedAfter(uint64_t seq);
  absl::StatusOr<std::vector<int64_t>> Hours();
  // The sums of an hour.
  absl::StatusOr<std::vector<FeedbackCell>> OfHour(int64_t hour);
  // The feedback on a request, ordered by name; at most `most` rows.
  absl::StatusOr<std::vector<KeptFeedback>> OfRequest(std::string_view request, size_t most);

 private:
  // Notes that the record `seq` changes the sums of these hours: that of a time; those of the feedback on a request
  // that has not ended; that of the feedback of this name and key.
  absl::Status NoteHour(int64_t time_us, uint64_t seq);
  absl::Status NoteUnsettled(std::string_view request, uint64_t seq);
  absl::Status NoteEarlier(const Feedback& of, uint64_t seq);
  absl::StatusOr<std::vector<int64_t>> HoursOf(const std::string& select);

  sqlite::Database& db_;
  RequestPlaces& places_;
  absl::flat_hash_set<std::string> waiting_;  // ids of requests
};

}  // namespace gateway::ledger
