#include "gateway/audit/content_erasure.h"

#include <fmt/format.h>

#include <vector>

#include "conf/text.h"

namespace gateway {

absl::StatusOr<nlohmann::ordered_json> EraseContent(ledger::ContentKeys& keys, ledger::Ledger& ledger,
                                                    const ErasureRequest& request, conf::TimePoint now) {
  const auto erased = keys.Erase(request.tenant, request.actor, now);
  if (!erased.ok()) return erased.status();
  if (erased->empty()) {
    return absl::NotFoundError(
        conf::Abseil(fmt::format("there is no tenant {} with stored content", request.tenant)));
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ledger::ContentKeys::Erased& one : *erased)
    list.push_back({{"tenant", one.tenant}, {"key", one.id}});
  ledger::Event event;
  event.kind = ledger::Kind::kAdmin;
  event.action = "content.erase";
  event.actor = request.actor;
  event.subject = request.tenant;
  event.tenant = request.tenant;
  event.detail = nlohmann::ordered_json{{"keys", list}, {"reason", request.reason}}.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  if (const absl::Status recorded = ledger.Append(event); !recorded.ok()) {
    return absl::UnavailableError(conf::Abseil(fmt::format(
        "the keys are destroyed, but the ledger does not have it: {}", conf::Std(recorded.message()))));
  }
  return nlohmann::ordered_json{{"tenant", request.tenant}, {"at", conf::FormatTime(now)}, {"erased", list}};
}

}  // namespace gateway
