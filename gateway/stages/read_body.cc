// read_body: the request's body under its limits: whole, or, of a form with files, up to the model's name.
#include <fmt/format.h>

#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/shard.h"
#include "gateway/stages/stages.h"

namespace gateway::stages {
namespace {

bool Begins(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && conf::EqualsIgnoreCase(text.substr(0, prefix.size()), prefix);
}

using Status = net::http::ServerConnection::Status;

// An absent type is taken for JSON, as the engines do.
bool IsJson(std::string_view content_type) {
  return content_type.empty() || Begins(content_type, "application/json");
}

Verdict Refuse(Exchange& x, Status status, uint64_t limit) {
  x.reuse_client = false;  // the rest of the body is still on its way
  x.shard.metrics.cells.bad_bodies.Add();
  switch (status) {
    case Status::kTooLarge:
      return x.Fail(api::Code::kRequestTooLarge,
                    fmt::format("the body is larger than the {} bytes allowed", limit));
    case Status::kTimedOut:
      return x.Fail(api::Code::kRequestTimeout, "the body did not arrive in time");
    case Status::kMalformed:
      return x.Fail(api::Code::kBadRequest, "the body's chunked coding is broken");
    default:  // whoever only half-closed can still read this, and either way it is recorded
      return x.Fail(api::Make(api::Code::kIncompleteBody, "the connection ended before the body was whole"),
                    ledger::EndReason::kClientGone);
  }
}

// Everything read so far is kept: the bytes before the model's name must be sent once it is known where to.
net::Task<Verdict> ReadForm(Exchange& x, std::string_view content_type, uint64_t limit) {
  const std::optional<std::string> boundary = router::MultipartScanner::BoundaryOf(content_type);
  if (!boundary) {
    co_return x.Fail(api::Code::kInvalidMultipart,
                     "Content-Type multipart/form-data needs one valid boundary");
  }
  x.form.emplace(*boundary);
  while (true) {
    std::string_view piece;
    const Status status = co_await x.client.ReadBodyPiece(piece);
    if (status != Status::kOk) co_return Refuse(x, status, limit);
    if (piece.empty()) {
      x.body_whole = true;
      x.form->Finish();
      break;
    }
    if (x.form_head.size() + piece.size() > limit) co_return Refuse(x, Status::kTooLarge, limit);
    x.form_head.append(piece);
    if (x.form->Feed(piece) == router::MultipartScanner::State::kFailed) break;
    // A form that may stream its answer is known to only when the field has come: with the model, in
    // practice.
    if (x.form->field(router::FormField::kModel)) break;
  }
  x.body = x.form_head;
  co_return Verdict::kGoOn;
}

}  // namespace

net::Task<Verdict> ReadBody(Exchange& x) {
  const uint64_t limit = x.runtime->config().server.limits.body_bytes;
  const std::string_view content_type = x.client.head().Find(net::http::FieldId::content_type);
  const router::BodyKind kind = x.spec->body;
  const bool is_form = Begins(content_type, "multipart/form-data");
  const conf::TimePoint before = net::Now();
  if (is_form && kind != router::BodyKind::kJson) {
    const Verdict verdict = co_await ReadForm(x, content_type, limit);
    x.at.body_wait = net::Now() - before;
    co_return verdict;
  }
  if (kind == router::BodyKind::kMultipart || is_form || !IsJson(content_type)) {
    x.reuse_client = false;
    co_return x.Fail(
        api::Code::kUnsupportedMediaType,
        fmt::format("Content-Type must be {}",
                    kind == router::BodyKind::kMultipart ? "multipart/form-data" : "application/json"));
  }
  const Status status = co_await x.client.ReadBody(limit);
  x.at.body_wait = net::Now() - before;
  if (status != Status::kOk) co_return Refuse(x, status, limit);
  x.body = x.client.body();
  x.body_whole = true;
  co_return Verdict::kGoOn;
}

}  // namespace gateway::stages
