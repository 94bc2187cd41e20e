// Erasing what a tenant has stored: its keys are destroyed, and the ledger gets a record of it. For the admin
// API and the command. Blocks; any thread but a loop's.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "conf/fields.h"
#include "conf/json_fields.h"
#include "conf/time.h"
#include "gateway/ledger/content_keys.h"
#include "gateway/ledger/ledger.h"

namespace gateway {

struct ErasureRequest {
  std::string tenant;  // path; the tenants below it, too
  std::string actor;
  std::string reason;
};

struct ErasedContentKey {
  static constexpr std::string_view kSchema = "ErasedKey";

  std::string tenant;
  std::string key;  // its id
};

template <class O>
constexpr void Bind(O& o, ErasedContentKey& erased) {
  o.Required("tenant", erased.tenant);
  o.Required("key", erased.key);
}

struct ErasedContent {
  static constexpr std::string_view kSchema = "ErasedContent";

  std::string tenant;
  conf::ShownTime at;
  std::vector<ErasedContentKey> erased;
};

template <class O>
constexpr void Bind(O& o, ErasedContent& content) {
  o.Required("tenant", content.tenant);
  o.Required("at", content.at);
  o.Required("erased", content.erased);
}

// Tells the ledger of destroyed keys, such as ContentKeys::Unrecorded of an earlier process. A process that
// ends in between records one twice rather than never.
absl::Status RecordErasures(ledger::ContentKeys& keys, ledger::Ledger& ledger,
                            const std::vector<ledger::ContentKeys::Erased>& erased);

// NotFound: no such tenant has a key. After Unavailable the keys are destroyed, and the next start of the
// gateway tells the ledger.
absl::StatusOr<ErasedContent> EraseContent(ledger::ContentKeys& keys, ledger::Ledger& ledger,
                                           const ErasureRequest& request, conf::TimePoint now);

}  // namespace gateway
