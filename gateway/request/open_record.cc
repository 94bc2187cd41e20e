// open_record: writes the ledger's open record. From here on the request is in the ledger, even if this process
// crashes.
#include <boost/asio/post.hpp>

#include "gateway/net/clock.h"
#include "gateway/net/watchdog.h"
#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"

namespace gateway::stages {
namespace {

// The ledger's thread makes room within milliseconds, but it needs longer when its core is busy.
constexpr conf::Duration kMostRingWait = std::chrono::milliseconds(500);
constexpr conf::Duration kRingPause = std::chrono::milliseconds(2);

bool TakesRecords(const Shared& shared) {
  return !shared.disk_low.load(std::memory_order_relaxed) && shared.ledger->Healthy();
}

net::Task<void> AwaitRoomInRing(Exchange& x) {
  if (x.body.whole) x.client.Watch();
  const conf::TimePoint until = net::Now() + kMostRingWait;
  net::Sleep pause(x.shard.loop.watchdog);
  while (x.shard.journal.RingFull() && TakesRecords(x.shard.shared) && !x.client.gone() && net::Now() < until)
    co_await pause.For(kRingPause);
}

// For strict durability: no request is forwarded before its open record is on disk.
net::Task<bool> AwaitDurable(Exchange& x) {
  ledger::Ledger& ledger = *x.shard.shared.ledger;
  const ledger::Position position = x.grant.ticket.position();
  if (ledger.IsDurable(position)) co_return true;
  if (x.body.whole) x.client.Watch();
  net::Event done;
  bool ok = false;
  ledger.OnDurable(position, [&](const absl::Status& status) {
    // Runs on the ledger's thread; this frame waits for the post.
    x.shard.loop.Post([&done, &ok, good = status.ok()] {
      ok = good;
      done.Set();
    });
  });
  co_await done.Wait();
  co_return ok;
}

// Stores the prompt if the tenant's policy says so. A form's files are never stored.
void StorePrompt(Exchange& x) {
  if (x.identity.principal->store_content == config::StoreContent::kNone || x.body.form) return;
  x.StoreContent({.time_us = conf::ToUnixMicros(x.at.started),
                  .part = ledger::ContentPart::kPrompt,
                  .text = x.body.text.substr(0, ledger::kMaxContent),
                  .full_bytes = x.body.text.size()});
}

bool IsStrict(const Exchange& x) {
  return x.runtime->config().ledger.durability == config::Durability::kStrict;
}

// False: the ledger takes no record now.
bool Open(Exchange& x) {
  if (x.shard.shared.disk_low.load(std::memory_order_relaxed)) return false;
  std::optional<ledger::Ticket> ticket = x.shard.journal.Open(OpenRecordOf(x));
  if (!ticket) return false;
  x.grant.ticket = *std::move(ticket);
  x.outcome.counts.bytes_in = x.client.connection().request_bytes();
  StorePrompt(x);
  return true;
}

StageResult Refuse(Exchange& x) {
  x.shard.metrics.cells.ledger_refusals.Add();
  return x.Fail(
      api::Code::kLedgerUnavailable,
      "the ledger cannot record this request now, and the gateway serves no request without a record; "
      "try again");
}

}  // namespace

StageResult OpenRecordAtOnce(Exchange& x) {
  if (IsStrict(x) || (x.shard.journal.RingFull() && TakesRecords(x.shard.shared))) return StageResult::kWaits;
  return Open(x) ? StageResult::kContinue : Refuse(x);
}

net::Task<StageResult> OpenRecord(Exchange& x) {
  if (x.shard.journal.RingFull() && TakesRecords(x.shard.shared)) {
    co_await AwaitRoomInRing(x);
    if (x.client.gone()) co_return x.Gone();
  }
  if (!Open(x)) co_return Refuse(x);
  if (IsStrict(x) && !co_await AwaitDurable(x)) co_return Refuse(x);
  co_return StageResult::kContinue;
}

ledger::OpenRecord OpenRecordOf(const Exchange& x) {
  ledger::OpenRecord record;
  record.time_us = conf::ToUnixMicros(x.at.started);
  record.request = x.identity.id;
  record.client_request = x.identity.client_request_id;
  if (x.identity.principal) {
    record.tenant = x.identity.principal->tenant;
    record.key = x.identity.principal->key;
  }
  if (x.model_id != kNoModel) record.model = x.runtime->routes().model(x.model_id).spec.name;
  if (x.identity.spec) record.api = x.identity.spec->name;
  record.client = x.identity.client_address;
  record.stream = x.body.facts.stream;
  return record;
}

}  // namespace gateway::stages
