// Usage of all gateways that share a store: this one's from its ledger, as it is now, and the others' from
// the copy of their reports (usage_copy.h). Blocks; not for a loop's thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/audit/usage_copy.h"
#include "gateway/audit/usage_rollup.h"
#include "gateway/ledger/index.h"

namespace gateway {

// Where the others' usage is; plain values.
struct UsageOfOthers {
  std::string copy_path = {};
  std::string source = {};   // of this gateway's ledger
  std::string gateway = {};  // its name
};

struct AllUsage {
  std::vector<ledger::UsageRow> rows;  // ordered by group
  uint64_t last_seq = 0;               // of this gateway's ledger
  std::vector<UsageMark> others;       // by source; the figures of each are as of its mark
  std::optional<UsageMark> own;      // as the others see this gateway; nothing: alone, or it told nothing yet
  std::vector<std::string> sources;  // with figures in the window, whatever the query asks for; by name
};

// The source of a ledger: its gateway's id and its signing key. `public_key_pem`: signing.pub.
absl::StatusOr<std::string> UsageSource(const std::string& gateway_id, const std::string& public_key_pem);

// Without `others`: of this ledger alone. The others' figures are by whole hours: each hour that the window touches
// counts. Unavailable: the reports of the others were never read.
absl::StatusOr<AllUsage> QueryAllUsage(const std::string& ledger_dir, const ledger::UsageQuery& query,
                                       const std::optional<UsageOfOthers>& others);

// The copy of what the others have told, to read. Unavailable: it was never read from the store.
absl::StatusOr<std::unique_ptr<UsageCopy>> OpenLoadedCopy(const UsageOfOthers& others);

// The gateways that have told of their usage within kGoneForUsage: id and name; this one's own, too. Empty where the
// reports of the others were never read.
struct KnownGateway {
  std::string id;  // of its state folder
  std::string name;
};
absl::StatusOr<std::vector<KnownGateway>> KnownGateways(const UsageOfOthers& others, conf::TimePoint now);

// How current an answer is: the time of the oldest figures of a gateway that has neither stopped nor been silent for
// kGoneForUsage; `now` if there is none.
inline constexpr conf::Duration kGoneForUsage = std::chrono::hours(7 * 24);
conf::TimePoint AsOf(const std::vector<UsageMark>& others, conf::TimePoint now);

}  // namespace gateway
