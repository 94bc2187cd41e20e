// record_open: from here on the request is in the ledger, whatever happens to this process.
#include <boost/asio/post.hpp>

#include "gateway/shard.h"
#include "gateway/stages/stages.h"

namespace gateway::stages {
namespace {

// Strict durability: nothing is forwarded before the open record is on disk.
net::Task<bool> Durable(Exchange& x) {
  ledger::Ledger& ledger = *x.shard.shared.ledger;
  const ledger::Position position = x.ticket.position();
  if (ledger.IsDurable(position)) co_return true;
  if (x.body_whole) x.WatchClient();
  net::Event done;
  bool ok = false;
  ledger.OnDurable(position, [&](const absl::Status& status) {
    // On the ledger's thread; this frame waits for the post.
    x.shard.loop.Post([&done, &ok, good = status.ok()] {
      ok = good;
      done.Set();
    });
  });
  co_await done.Wait();
  co_return ok;
}

// Only where the tenant's policy says so. A form's files are never stored.
void StorePrompt(Exchange& x) {
  if (x.principal->store_content == config::StoreContent::kNone || x.form) return;
  x.ticket.Content({.time_us = conf::ToUnixMicros(x.at.started),
                    .part = ledger::ContentPart::kPrompt,
                    .text = x.body.substr(0, ledger::kMaxContent),
                    .full_bytes = x.body.size()});
}

}  // namespace

net::Task<Verdict> RecordOpen(Exchange& x) {
  const ledger::OpenRecord record = OpenRecordOf(x);
  std::optional<ledger::Ticket> ticket;
  if (!x.shard.shared.disk_low.load(std::memory_order_relaxed)) ticket = x.shard.journal.Open(record);
  if (ticket) {
    x.ticket = *std::move(ticket);
    x.counts.bytes_in = x.client.request_bytes();
    const bool strict = x.runtime->config().ledger.durability == config::Durability::kStrict;
    StorePrompt(x);
    if (!strict || co_await Durable(x)) co_return Verdict::kGoOn;
  }
  x.shard.metrics.cells.ledger_refusals.Add();
  co_return x.Fail(
      api::Code::kLedgerUnavailable,
      "the audit ledger cannot take this request now, and none is served without being recorded");
}

ledger::OpenRecord OpenRecordOf(const Exchange& x) {
  ledger::OpenRecord record;
  record.time_us = conf::ToUnixMicros(x.at.started);
  record.request = x.id;
  record.client_request = x.client_request_id;
  if (x.principal) {
    record.tenant = x.principal->tenant;
    record.key = x.principal->key;
  }
  if (x.model_id != kNoModel) record.model = x.runtime->routes().model(x.model_id).spec.name;
  if (x.spec) record.api = x.spec->name;
  record.client = x.client_address;
  record.stream = x.facts.stream;
  return record;
}

}  // namespace gateway::stages
