// check_body: refuses a body with a coding or a type that this API does not take. Reads only the head.
#include <fmt/format.h>

#include "conf/text.h"
#include "gateway/request/stages.h"

namespace gateway::stages {
namespace {

// Whether the type, without its parameters, is this one.
bool IsType(std::string_view content_type, std::string_view type) {
  std::string_view name = content_type.substr(0, content_type.find(';'));
  while (!name.empty() && (name.back() == ' ' || name.back() == '\t')) name.remove_suffix(1);
  return conf::EqualsIgnoreCase(name, type);
}

// A body without a type counts as JSON, as it does for the engines.
bool IsJson(std::string_view content_type) {
  return content_type.empty() || IsType(content_type, "application/json");
}

bool IsCoded(const net::http::Head& head) {
  const std::string_view coding = head.Find(net::http::FieldId::content_encoding);
  return !coding.empty() && !conf::EqualsIgnoreCase(coding, "identity");
}

StageResult RefuseType(Exchange& x, std::string_view expected) {
  x.client.SetReusable(false);
  return x.Fail(api::Code::kUnsupportedMediaType, fmt::format("Content-Type must be {}", expected));
}

StageResult BeginForm(Exchange& x, std::string_view content_type) {
  const std::optional<std::string> boundary = router::MultipartScanner::BoundaryOf(content_type);
  if (!boundary) {
    return x.Fail(api::Code::kInvalidMultipart,
                  "Content-Type multipart/form-data needs exactly one valid boundary; of other parameters, "
                  "only charset is allowed");
  }
  x.body.form.emplace(*boundary);
  x.body.takes_memory = true;
  return StageResult::kContinue;
}

}  // namespace

StageResult CheckBody(Exchange& x) {
  const std::string_view content_type = x.client.head().Find(net::http::FieldId::content_type);
  const router::BodyKind kind = x.identity.spec->body;
  // A small compressed body can decode to any amount of text, so the gateway decodes none.
  if (IsCoded(x.client.head())) {
    x.client.SetReusable(false);
    return x.Fail(api::Code::kUnsupportedMediaType,
                  fmt::format("Content-Encoding is {}: send the body uncompressed",
                              x.client.head().Find(net::http::FieldId::content_encoding).substr(0, 64)));
  }
  const bool is_form = IsType(content_type, "multipart/form-data");
  if (is_form && kind != router::BodyKind::kJson) return BeginForm(x, content_type);
  if (kind == router::BodyKind::kMultipart) return RefuseType(x, "multipart/form-data");
  if (is_form || !IsJson(content_type)) return RefuseType(x, "application/json");
  x.body.takes_memory = !x.client.connection().body_fits();
  return StageResult::kContinue;
}

}  // namespace gateway::stages
