#include "gateway/admin/changes.h"

#include <fmt/format.h>

#include "conf/text.h"

namespace gateway::admin {

std::optional<Answer> RefuseUnrecorded(const Operations& operations, const Call& call) {
  if (operations.shared->ledger->Healthy()) return std::nullopt;
  return Refuse(api::Code::kLedgerUnavailable,
                "the ledger cannot record the change now; try again when it can", call.request_id);
}

Answer RefuseChange(const absl::Status& why, const Call& call) {
  if (absl::IsUnavailable(why) || absl::IsResourceExhausted(why) || absl::IsUnknown(why) ||
      absl::IsDataLoss(why)) {
    return Refuse(api::Code::kStoreUnavailable, std::string(conf::Std(why.message())), call.request_id);
  }
  return Refuse(why, call.request_id);
}

Answer RefuseUnknown(std::string_view what, const Call& call) {
  return Refuse(api::Code::kNotFound, fmt::format("no {} \"{}\" is known here", what, call.item),
                call.request_id);
}

}  // namespace gateway::admin
