// read_body: reads the body within its limits: whole, or, of a form with files, up to the model's name.
#include <fmt/format.h>

#include <algorithm>

#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/request/claim.h"
#include "gateway/request/form_reader.h"
#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"

namespace gateway::stages {
namespace {

// Whether the type, without its parameters, is this one.
bool IsType(std::string_view content_type, std::string_view type) {
  std::string_view name = content_type.substr(0, content_type.find(';'));
  while (!name.empty() && (name.back() == ' ' || name.back() == '\t')) name.remove_suffix(1);
  return conf::EqualsIgnoreCase(name, type);
}

// A body without a type is taken for JSON, as the engines do.
bool IsJson(std::string_view content_type) {
  return content_type.empty() || IsType(content_type, "application/json");
}

bool IsCoded(const net::http::Head& head) {
  const std::string_view coding = head.Find(net::http::FieldId::content_encoding);
  return !coding.empty() && !conf::EqualsIgnoreCase(coding, "identity");
}

// A body that fails before the ledger's open record is a refused request, unless the client has left.
StageResult Refuse(Exchange& x, Failure failure) {
  if (failure.reason != ledger::EndReason::kClientGone) failure.reason = ledger::EndReason::kRefused;
  return x.Fail(std::move(failure));
}

// A tenant's bodies take no more than half of the memory, unless it is configured.
void BeginRoom(Exchange& x) {
  const config::ServerLimits& limits = x.runtime->config().server.limits;
  BodyMemory::Hold& room = x.body.room.emplace(x.shard.shared.body_memory, limits.body_memory);
  const std::string_view path = x.identity.principal->tenant;
  for (size_t end = path.find('/'); !path.empty(); end = path.find('/', end + 1)) {
    const std::string_view tenant = path.substr(0, end);
    if (const TenantRuntime* known = x.runtime->FindTenant(tenant)) {
      const uint64_t usual = std::max(limits.body_memory / 2, limits.body_bytes);
      room.Add({.tenant = std::string(tenant), .bytes = known->config->body_memory.value_or(usual)});
    }
    if (end == std::string_view::npos) break;
  }
}

// The body is not read.
StageResult RefusePlace(Exchange& x, const router::limits::Refusal& refusal) {
  x.client.SetReusable(false);
  x.grant.rates = router::limits::Rates(x.identity.principal->node, {}, x.at.started);
  return RefuseByLimit(x, refusal);
}

StageResult RefuseForRoom(Exchange& x) {
  x.client.SetReusable(false);
  const BodyMemory::Hold& room = *x.body.room;
  x.shard.metrics.cells.limit_refusals.Add();
  const Failure failure = RoomFailure(room);
  x.outcome.limit = failure.error.limit;
  return x.Fail(failure);
}

// Keeps all that is read: the bytes before the model's name are sent when its replica is known.
net::Task<StageResult> ReadForm(Exchange& x, std::string_view content_type) {
  const std::optional<std::string> boundary = router::MultipartScanner::BoundaryOf(content_type);
  if (!boundary) {
    co_return x.Fail(
        api::Code::kInvalidMultipart,
        "Content-Type multipart/form-data needs one valid boundary, and takes no other parameter "
        "than charset");
  }
  x.body.form.emplace(*boundary);
  if (const auto refusal = ClaimPlace(x)) co_return RefusePlace(x, *refusal);
  BeginRoom(x);
  if (!x.body.room->GrowTo(std::min<uint64_t>(x.client.head().content_length.value_or(0),
                                              x.runtime->config().server.limits.body_bytes)))
    co_return RefuseForRoom(x);
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

}  // namespace

net::Task<StageResult> ReadBody(Exchange& x) {
  const std::string_view content_type = x.client.head().Find(net::http::FieldId::content_type);
  const router::BodyKind kind = x.identity.spec->body;
  // A small coded body can stand for any amount of text, so none is decoded.
  if (IsCoded(x.client.head())) {
    x.client.SetReusable(false);
    co_return x.Fail(api::Code::kUnsupportedMediaType,
                     fmt::format("Content-Encoding is {}: send the body uncompressed",
                                 x.client.head().Find(net::http::FieldId::content_encoding).substr(0, 64)));
  }
  const bool is_form = IsType(content_type, "multipart/form-data");
  if (is_form && kind != router::BodyKind::kJson) co_return co_await ReadForm(x, content_type);
  if (kind == router::BodyKind::kMultipart || is_form || !IsJson(content_type)) {
    x.client.SetReusable(false);
    co_return x.Fail(
        api::Code::kUnsupportedMediaType,
        fmt::format("Content-Type must be {}",
                    kind == router::BodyKind::kMultipart ? "multipart/form-data" : "application/json"));
  }
  const conf::TimePoint before = net::Now();
  const uint64_t most = x.runtime->config().server.limits.body_bytes;
  if (!x.client.connection().body_fits()) {
    if (const auto refusal = ClaimPlace(x)) co_return RefusePlace(x, *refusal);
    BeginRoom(x);
  }
  const auto status = co_await x.client.connection().ReadBody(most, x.body.room ? &*x.body.room : nullptr);
  x.at.body_wait = net::Now() - before;
  if (status == net::http::ServerConnection::Status::kNoRoom) co_return RefuseForRoom(x);
  if (status != net::http::ServerConnection::Status::kOk) {
    x.client.SetReusable(false);  // the rest of the body is still to come
    x.shard.metrics.cells.bad_bodies.Add();
    co_return Refuse(x, BodyFailure(status, most));
  }
  x.body.text = x.client.connection().body();
  x.body.whole = true;
  co_return StageResult::kContinue;
}

}  // namespace gateway::stages
