#include "gateway/audit/content_erasure.h"

#include <fmt/format.h>

#include <utility>

#include "conf/text.h"

namespace gateway {

absl::Status RecordErasures(ledger::ContentKeys& keys, ledger::Ledger& ledger,
                            const std::vector<ledger::ContentKeys::Erased>& erased) {
  for (const ledger::ContentKeys::Erased& one : erased) {
    ledger::Event event;
    event.kind = ledger::Kind::kAdmin;
    event.time_us = conf::ToUnixMicros(one.at);
    event.action = "content.erase";
    event.actor = one.by;
    event.subject = one.tenant;
    event.tenant = one.tenant;
    event.detail =
        fmt::format(R"({{"key":{},"reason":{}}})", conf::ToJsonText(one.id), conf::ToJsonText(one.reason));
    if (absl::Status recorded = ledger.Append(std::move(event)); !recorded.ok()) return recorded;
    if (absl::Status marked = keys.MarkRecorded(one.id); !marked.ok()) return marked;
  }
  return absl::OkStatus();
}

absl::StatusOr<ErasedContent> EraseContent(ledger::ContentKeys& keys, ledger::Ledger& ledger,
                                           const ErasureRequest& request, conf::TimePoint now) {
  const auto erased = keys.Erase(request.tenant, request.actor, request.reason, now);
  if (!erased.ok()) return erased.status();
  if (erased->empty()) {
    return absl::NotFoundError(
        conf::Abseil(fmt::format("there is no tenant {} with stored content", request.tenant)));
  }
  if (const absl::Status recorded = RecordErasures(keys, ledger, *erased); !recorded.ok()) {
    return absl::UnavailableError(conf::Abseil(
        fmt::format("the keys are destroyed, but the ledger cannot record that now; the gateway records it "
                    "at its next start: {}",
                    conf::Std(recorded.message()))));
  }
  ErasedContent out{request.tenant, {now}, {}};
  for (const ledger::ContentKeys::Erased& one : *erased) out.erased.push_back({one.tenant, one.id});
  return out;
}

}  // namespace gateway
