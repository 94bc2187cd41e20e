// read_body: the request's body under its limits: whole, or, of a form with files, up to the model's name.
#include <fmt/format.h>

#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/request_body.h"
#include "gateway/shard.h"
#include "gateway/stages/stages.h"

namespace gateway::stages {
namespace {

bool Begins(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && conf::EqualsIgnoreCase(text.substr(0, prefix.size()), prefix);
}

// An absent type is taken for JSON, as the engines do.
bool IsJson(std::string_view content_type) {
  return content_type.empty() || Begins(content_type, "application/json");
}

// Everything read so far is kept: the bytes before the model's name must be sent once it is known where to.
net::Task<Verdict> ReadForm(Exchange& x, std::string_view content_type) {
  const std::optional<std::string> boundary = router::MultipartScanner::BoundaryOf(content_type);
  if (!boundary) {
    co_return x.Fail(api::Code::kInvalidMultipart,
                     "Content-Type multipart/form-data needs one valid boundary");
  }
  x.form.emplace(*boundary);
  // A form that may stream its answer is known to only when the field has come: with the model, in practice.
  while (!x.body_whole && !x.form->field(router::FormField::kModel)) {
    std::string_view piece;
    if (!co_await ReadFormPiece(x, piece)) co_return Verdict::kFailed;
  }
  x.body = x.form_head;
  co_return Verdict::kGoOn;
}

}  // namespace

net::Task<Verdict> ReadBody(Exchange& x) {
  const std::string_view content_type = x.client.head().Find(net::http::FieldId::content_type);
  const router::BodyKind kind = x.spec->body;
  const bool is_form = Begins(content_type, "multipart/form-data");
  if (is_form && kind != router::BodyKind::kJson) co_return co_await ReadForm(x, content_type);
  if (kind == router::BodyKind::kMultipart || is_form || !IsJson(content_type)) {
    x.reuse_client = false;
    co_return x.Fail(
        api::Code::kUnsupportedMediaType,
        fmt::format("Content-Type must be {}",
                    kind == router::BodyKind::kMultipart ? "multipart/form-data" : "application/json"));
  }
  const conf::TimePoint before = net::Now();
  const auto status = co_await x.client.ReadBody(x.runtime->config().server.limits.body_bytes);
  x.at.body_wait = net::Now() - before;
  if (status != net::http::ServerConnection::Status::kOk) co_return RefuseBody(x, status);
  x.body = x.client.body();
  x.body_whole = true;
  co_return Verdict::kGoOn;
}

}  // namespace gateway::stages
