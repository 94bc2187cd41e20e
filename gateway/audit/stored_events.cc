#include "gateway/audit/stored_events.h"

#include <openssl/rand.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "conf/hex.h"
#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"
#include "gateway/store/kinds.h"

namespace gateway {
namespace {

using nlohmann::ordered_json;

constexpr conf::Duration kCarryRetry = std::chrono::seconds(1);
constexpr const char* kActionWord = "action";

std::optional<ledger::Event> Decode(const std::string& body) {
  const ordered_json json = conf::ParseOrderedJson(body);
  try {
    return ledger::Event{
        .kind = json.value("kind", "") == kActionWord ? ledger::Kind::kAction : ledger::Kind::kAdmin,
        .time_us = json.at("time_us"),
        .action = json.at("action"),
        .actor = json.at("actor"),
        .subject = json.at("subject"),
        .tenant = json.at("tenant"),
        .detail = json.at("detail")};
  } catch (const ordered_json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

store::Write StoredEvent(ledger::Event event) {
  if (event.time_us == 0) event.time_us = conf::ToUnixMicros(net::Now());
  std::array<uint8_t, 16> id{};
  RAND_bytes(id.data(), static_cast<int>(id.size()));
  ordered_json body = {{"time_us", event.time_us}, {"action", event.action}, {"actor", event.actor},
                       {"subject", event.subject}, {"tenant", event.tenant}, {"detail", event.detail}};
  if (event.kind == ledger::Kind::kAction) body["kind"] = kActionWord;
  return store::Write::Create(store::kLedgerEvent, conf::Hex(id), conf::DumpJson(body));
}

StoredEvents::StoredEvents(net::Loop& loop, store::Store& store, ledger::Ledger& ledger,
                           std::function<void(const ledger::Event&)> carried)
    : loop_(loop),
      store_(store),
      ledger_(ledger),
      carried_(std::move(carried)),
      follower_(loop, store, store::kLedgerEvent,
                {.replace = [this](const std::vector<store::Object>& all) { Replace(all); },
                 .apply = [this](const std::vector<store::Change>& changes) { Apply(changes); }}),
      pause_(loop.watchdog) {}

void StoredEvents::Stop() {
  stopped_ = true;
  follower_.Stop();
  pause_.Cancel();
}

void StoredEvents::Replace(const std::vector<store::Object>& all) {
  pending_.clear();
  for (const store::Object& object : all) pending_[object.version] = object;
  CarryLater();
}

void StoredEvents::Apply(const std::vector<store::Change>& changes) {
  for (const store::Change& change : changes) {
    if (change.body) {
      pending_[change.number] = {store::kLedgerEvent, change.id, change.number, *change.body};
    } else {
      std::erase_if(pending_, [&](const auto& entry) { return entry.second.id == change.id; });
    }
  }
  CarryLater();
}

void StoredEvents::CarryLater() {
  if (stopped_ || pending_.empty() || std::exchange(carrying_, true)) return;
  loop_.tasks.Spawn(CarryOn());
}

net::Task<void> StoredEvents::CarryOn() {
  while (!stopped_ && !pending_.empty()) {
    const uint64_t version = pending_.begin()->first;
    const absl::Status carried = co_await Carry(pending_.begin()->second);
    if (carried.ok()) {
      pending_.erase(version);
      if (std::exchange(failing_, false)) log::Info("events of commands are in the ledger again");
      continue;
    }
    if (!std::exchange(failing_, true)) {
      log::Warn("events of commands are not in the ledger yet; retrying",
                {{"why", conf::Std(carried.message())}});
    }
    co_await pause_.For(kCarryRetry);
  }
  carrying_ = false;
}

net::Task<absl::Status> StoredEvents::Carry(store::Object object) {
  // One that this version cannot read is said once, and removed: it can only be a mistake.
  if (const std::optional<ledger::Event> event = Decode(object.body)) {
    const absl::Status written =
        co_await net::OffLoop(loop_, [this, &event] { return ledger_.Append(*event); });
    if (!written.ok() && !absl::IsInvalidArgument(written)) co_return written;
    if (written.ok()) {
      carried_(*event);
    } else {
      log::Error("not recorded", {{"why", conf::Std(written.message())}});
    }
  } else {
    log::Error("an event of a command cannot be read, so the ledger does not have it",
               {{"event", object.id}});
  }
  std::vector<store::Write> writes;
  writes.push_back(store::Write::Remove(object));
  const absl::StatusOr<store::Committed> removed = co_await store_.Commit(std::move(writes));
  // Aborted: another process removed it.
  co_return absl::IsAborted(removed.status()) ? absl::OkStatus() : removed.status();
}

}  // namespace gateway
