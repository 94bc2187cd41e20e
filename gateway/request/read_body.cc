// read_body: reads the body within its limits: a form with files up to the model's name, any other body whole.
#include "gateway/net/clock.h"
#include "gateway/request/form_reader.h"
#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"

namespace gateway::stages {
namespace {

// The ledger has no open record yet: a body that fails is a refused request, unless the client has left.
StageResult Refuse(Exchange& x, Failure failure) {
  if (failure.reason != ledger::EndReason::kClientGone) failure.reason = ledger::EndReason::kRefused;
  return x.Fail(std::move(failure));
}

// Keeps all that it reads: these bytes are sent once the replica is known.
net::Task<StageResult> ReadForm(Exchange& x) {
  // The field `stream` counts only if it comes before the model's name, or in the same piece.
  FormReader reader(x.client, x.body, x.at, x.shard.metrics.cells,
                    x.runtime->config().server.limits.body_bytes);
  while (!x.body.whole && !x.body.form->field(router::FormField::kModel)) {
    std::string_view piece;
    if (!co_await reader.Next(piece)) co_return Refuse(x, *reader.failure());
  }
  x.body.text = x.body.form_text;
  co_return StageResult::kContinue;
}

StageResult UseWholeBody(Exchange& x) {
  x.body.text = x.client.connection().body();
  x.body.whole = true;
  return StageResult::kContinue;
}

}  // namespace

// A small body usually arrives together with its head.
StageResult TakeBody(Exchange& x) {
  if (x.body.form || !x.client.connection().TakeBody(x.runtime->config().server.limits.body_bytes))
    return StageResult::kWaits;
  return UseWholeBody(x);
}

net::Task<StageResult> ReadBody(Exchange& x) {
  if (x.body.form) co_return co_await ReadForm(x);
  const conf::TimePoint before = net::Now();
  const uint64_t most = x.runtime->config().server.limits.body_bytes;
  const auto status = co_await x.client.connection().ReadBody(most, x.body.room ? &*x.body.room : nullptr);
  x.at.body_wait = net::Now() - before;
  if (status == net::http::ServerConnection::Status::kNoRoom) co_return RefuseForRoom(x);
  if (status != net::http::ServerConnection::Status::kOk) {
    x.client.SetReusable(false);  // the rest of the body is still to come
    x.shard.metrics.cells.bad_bodies.Add();
    co_return Refuse(x, BodyFailure(status, most));
  }
  co_return UseWholeBody(x);
}

}  // namespace gateway::stages
