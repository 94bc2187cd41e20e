#include "gateway/request_body.h"

#include <fmt/format.h>

#include "gateway/net/clock.h"
#include "gateway/shard.h"

namespace gateway {

using ledger::EndReason;
using Status = net::http::ServerConnection::Status;

Verdict RefuseBody(Exchange& x, Status status) {
  x.reuse_client = false;  // the rest of the body is still on its way
  x.shard.metrics.cells.bad_bodies.Add();
  const bool admitted = static_cast<bool>(x.ticket);
  switch (status) {
    case Status::kTooLarge:
      return x.Fail(
          api::Make(api::Code::kRequestTooLarge, fmt::format("the body is larger than the {} bytes allowed",
                                                             x.runtime->config().server.limits.body_bytes)),
          admitted ? EndReason::kBadRequest : EndReason::kRefused);
    case Status::kTimedOut:
      return x.Fail(api::Make(api::Code::kRequestTimeout, "the body did not arrive in time"),
                    admitted ? EndReason::kTimedOut : EndReason::kRefused);
    case Status::kMalformed:
      return x.Fail(api::Make(api::Code::kBadRequest, "the body's chunked coding is broken"),
                    admitted ? EndReason::kBadRequest : EndReason::kRefused);
    default:  // whoever only half-closed can still read this, and either way it is recorded
      return x.Fail(api::Make(api::Code::kIncompleteBody, "the connection ended before the body was whole"),
                    EndReason::kClientGone);
  }
}

net::Task<bool> ReadFormPiece(Exchange& x, std::string_view& piece) {
  const conf::TimePoint before = net::Now();
  const Status status = co_await x.client.ReadBodyPiece(piece);
  x.at.body_wait += net::Now() - before;
  const bool fits = x.form_head.size() + piece.size() <= x.runtime->config().server.limits.body_bytes;
  if (status != Status::kOk || !fits) {
    RefuseBody(x, fits ? status : Status::kTooLarge);
    co_return false;
  }
  x.body_whole = piece.empty();
  x.form_head.append(piece);
  const auto state = x.body_whole ? x.form->Finish() : x.form->Feed(piece);
  if (state != router::MultipartScanner::State::kFailed) co_return true;
  x.reuse_client = x.body_whole;
  x.Fail(api::FromFacts(x.form->error()), x.ticket ? EndReason::kBadRequest : EndReason::kRefused);
  co_return false;
}

}  // namespace gateway
