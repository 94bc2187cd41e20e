#include "gateway/batches/shared_keys.h"

#include <fmt/format.h>

#include <utility>

#include "conf/json_fields.h"
#include "conf/text.h"
#include "gateway/audit/stored_events.h"
#include "gateway/log.h"
#include "gateway/people/stored_json.h"
#include "gateway/store/kinds.h"

namespace gateway::batches {
namespace {

absl::Status OtherMaster(const SharedKey& key) {
  return absl::UnavailableError(conf::Abseil(fmt::format(
      "the content key {} of {} in the store is wrapped under another master key: all gateways must have the "
      "same ledger.content_key; add the missing one after the first",
      key.id, key.tenant)));
}

bool IsOrBelowTenant(std::string_view tenant, std::string_view path) {
  return tenant == path ||
         (tenant.size() > path.size() && tenant.starts_with(path) && tenant[path.size()] == '/');
}

}  // namespace

template <class O>
constexpr void Bind(O& o, SharedKey& key) {
  o.Required("tenant", key.tenant);
  o.Required("id", key.id);
  o.Required("wrapped", key.wrapped);
  o.NotWritten(key.key);
  o.NotWritten(key.of_old_master);
}

std::string EncodeSharedKey(const SharedKey& key) {
  return conf::ToJsonText(key);
}

SharedKeys::SharedKeys(net::Loop& loop, store::Store& store, const ledger::ContentKeys& masters)
    : store_(store),
      masters_(masters),
      copy_(
          loop, store, store::kContentKey,
          [&masters](const std::string&, const std::string& body) {
            absl::StatusOr<SharedKey> key = ReadStored<SharedKey>("content_key", body);
            if (!key.ok()) return key;
            ledger::ContentKeys::Unwrapped unwrapped = masters.Unwrap(key->id, key->wrapped);
            key->key = std::move(unwrapped.key);
            key->of_old_master = unwrapped.old;
            if (key->key == nullptr)
              log::Error("shared files of a tenant cannot be read",
                         {{"why", conf::Std(OtherMaster(*key).message())}});
            return key;
          },
          [] {}) {}

net::Task<absl::Status> SharedKeys::Start() {
  if (absl::Status started = co_await copy_.Start(); !started.ok()) co_return started;
  co_return co_await WrapAgain();
}

net::Task<absl::Status> SharedKeys::WrapAgain() {
  std::vector<store::Write> writes;
  for (const auto& [tenant, entry] : copy_.all()) {
    if (!entry.value.of_old_master) continue;
    SharedKey again = entry.value;
    absl::StatusOr<std::string> wrapped = masters_.Wrap(*again.key);
    if (!wrapped.ok()) co_return wrapped.status();
    again.wrapped = *std::move(wrapped);
    writes.push_back({store::kContentKey, tenant, entry.version, EncodeSharedKey(again)});
  }
  if (writes.empty()) co_return absl::OkStatus();
  // Another gateway may do the same now.
  const absl::Status written = (co_await store_.Commit(std::move(writes))).status();
  if (!written.ok() && !absl::IsAborted(written)) co_return written;
  co_return co_await copy_.CatchUp();
}

net::Task<absl::StatusOr<ledger::ContentKeyRef>> SharedKeys::For(std::string tenant) {
  if (copy_.Find(tenant) == nullptr) {
    SharedKey made{.tenant = tenant, .key = ledger::ContentKeys::MakeNew()};
    made.id = made.key->id();
    absl::StatusOr<std::string> wrapped = masters_.Wrap(*made.key);
    if (!wrapped.ok()) co_return wrapped.status();
    made.wrapped = *std::move(wrapped);
    std::vector<store::Write> writes;
    writes.push_back(store::Write::Create(store::kContentKey, tenant, EncodeSharedKey(made)));
    const absl::Status written = (co_await store_.Commit(std::move(writes))).status();
    // Another gateway may have made one meanwhile: that one counts.
    if (!written.ok() && !absl::IsAborted(written)) co_return written;
    if (absl::Status current = co_await copy_.CatchUp(); !current.ok()) co_return current;
  }
  const auto* const entry = copy_.Find(tenant);
  if (entry == nullptr) co_return absl::UnavailableError("the key was erased at this moment");
  if (entry->value.key == nullptr) co_return OtherMaster(entry->value);
  co_return entry->value.key;
}

absl::StatusOr<ledger::ContentKeyRef> SharedKeys::Find(std::string_view id) const {
  for (const auto& [tenant, entry] : copy_.all()) {
    if (entry.value.id != id) continue;
    if (entry.value.key == nullptr) return OtherMaster(entry.value);
    return entry.value.key;
  }
  return absl::NotFoundError("there is no such content key");
}

net::Task<absl::StatusOr<std::vector<SharedKey>>> SharedKeys::Erase(std::string tenant, std::string by,
                                                                    std::string reason) {
  for (int attempt = 0; attempt < store::kChangeAttempts; ++attempt) {
    if (absl::Status current = co_await copy_.CatchUp(); !current.ok()) co_return current;
    std::vector<SharedKey> erased;
    std::vector<store::Write> writes;
    for (const auto& [path, entry] : copy_.all()) {
      if (!IsOrBelowTenant(path, tenant)) continue;
      writes.push_back({store::kContentKey, path, entry.version, std::nullopt});
      writes.push_back(
          StoredEvent({.action = "content.erase",
                       .actor = by,
                       .subject = path,
                       .tenant = path,
                       .detail = fmt::format(R"({{"key":{},"reason":{}}})", conf::ToJsonText(entry.value.id),
                                             conf::ToJsonText(reason))}));
      erased.push_back(entry.value);
    }
    if (erased.empty()) co_return erased;
    const absl::Status written = (co_await store_.Commit(std::move(writes))).status();
    if (absl::IsAborted(written)) continue;
    if (!written.ok()) co_return written;
    if (absl::Status current = co_await copy_.CatchUp(); !current.ok()) co_return current;
    co_return erased;
  }
  co_return absl::UnavailableError("other gateways change the content keys at the same time; try again");
}

}  // namespace gateway::batches
