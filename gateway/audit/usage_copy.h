// UsageCopy: what other gateways have told of their usage (usage_rollup.h), in a file of this one, so that questions
// of usage ask no store. It is derived from the store: made anew when it is missing, damaged, or of another ledger.
//
// A UsageCopy is used by one thread at a time; one writes, any number of others, also of other processes, read.
// Blocks.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gateway/audit/usage_rollup.h"
#include "gateway/store/sqlite.h"
#include "gateway/store/store.h"

namespace gateway {

class UsageCopy {
 public:
  // `own`: the source whose sums are left out, since this gateway's own ledger has them.
  static absl::StatusOr<std::unique_ptr<UsageCopy>> Open(const std::string& path, const std::string& own);
  // For those who only ask: one that is damaged, or of another ledger, is DataLoss, and stays.
  static absl::StatusOr<std::unique_ptr<UsageCopy>> OpenToRead(const std::string& path,
                                                               const std::string& own);
  // After this the next Open makes it anew.
  static absl::Status Remove(const std::string& path);

  // The last change of the store that it shows; 0: it was never loaded.
  absl::StatusOr<uint64_t> Number();
  absl::Status Apply(const std::vector<store::Change>& changes, uint64_t number);
  // A full reload, in pages; what was not among them is removed at the end.
  absl::Status BeginLoad();
  absl::Status Load(const std::vector<store::Object>& objects);
  absl::Status EndLoad(uint64_t number);

  // By source; this gateway's own, too.
  absl::StatusOr<std::vector<UsageMark>> Marks();
  // The sources that have sums of usage in the window of a query, whatever it asks for; this gateway's own, too.
  absl::StatusOr<std::vector<std::string>> SourcesOf(const ledger::UsageQuery& query);
  // The versions of a source's parts by id: of one hour, or of all hours before it. The mark's version.
  absl::StatusOr<std::map<std::string, uint64_t>> PartsOf(const std::string& source, int64_t hour);
  absl::StatusOr<std::map<std::string, uint64_t>> PartsBefore(const std::string& source, int64_t hour,
                                                              size_t limit);
  absl::StatusOr<uint64_t> VersionOf(const std::string& id);

  // Of all sources but the own one. Each hour that the window touches counts whole.
  absl::StatusOr<std::vector<ledger::UsageRow>> Usage(const ledger::UsageQuery& query);
  absl::StatusOr<std::vector<ledger::FeedbackSum>> Feedback(const ledger::FeedbackQuery& query);

 private:
  explicit UsageCopy(std::unique_ptr<sqlite::Database> db, std::string own)
      : db_(std::move(db)), own_(std::move(own)) {}
  absl::Status InTransaction(const std::function<absl::Status()>& work);
  absl::Status Put(const std::string& id, uint64_t version, const std::string& body);
  absl::Status PutUsage(int64_t hour, int64_t n, const std::vector<ledger::UsageCell>& cells);
  absl::Status PutFeedback(int64_t hour, int64_t n, const std::vector<ledger::FeedbackCell>& cells);
  absl::Status RemoveObject(const std::string& id);
  absl::StatusOr<int64_t> TextId(const std::string& text);
  absl::Status SetNumber(uint64_t number);
  absl::StatusOr<std::map<std::string, uint64_t>> Parts(const std::string& condition,
                                                        const std::string& source);

  const std::unique_ptr<sqlite::Database> db_;
  const std::string own_;
};

}  // namespace gateway
