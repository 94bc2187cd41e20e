#include "gateway/audit/content_erasure.h"

#include <fmt/format.h>

#include <vector>

#include "conf/text.h"

namespace gateway {

absl::StatusOr<ErasedContent> EraseContent(ledger::ContentKeys& keys, ledger::Ledger& ledger,
                                           const ErasureRequest& request, conf::TimePoint now) {
  const auto erased = keys.Erase(request.tenant, request.actor, now);
  if (!erased.ok()) return erased.status();
  if (erased->empty()) {
    return absl::NotFoundError(
        conf::Abseil(fmt::format("there is no tenant {} with stored content", request.tenant)));
  }
  ErasedContent out{request.tenant, {now}, {}};
  for (const ledger::ContentKeys::Erased& one : *erased) out.erased.push_back({one.tenant, one.id});
  ledger::Event event;
  event.kind = ledger::Kind::kAdmin;
  event.action = "content.erase";
  event.actor = request.actor;
  event.subject = request.tenant;
  event.tenant = request.tenant;
  event.detail = fmt::format(R"({{"keys":{},"reason":{}}})", conf::ToJsonText(out.erased),
                             conf::ToJsonText(request.reason));
  if (const absl::Status recorded = ledger.Append(event); !recorded.ok()) {
    return absl::UnavailableError(conf::Abseil(fmt::format(
        "the keys are destroyed, but the ledger does not have it: {}", conf::Std(recorded.message()))));
  }
  return out;
}

}  // namespace gateway
