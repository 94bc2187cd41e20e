#include "gateway/net/http/head.h"

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wconversion"
#include <boost/beast/http/basic_parser.hpp>
#pragma clang diagnostic pop

#include <boost/asio/buffer.hpp>
#include <charconv>
#include <cstring>

#include "conf/text.h"
#include "gateway/net/http/authority.h"

namespace gateway::net::http {
namespace {

namespace beast = boost::beast;
using beast::error_code;

std::string_view Trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

// Collects what Beast finds as views into the caller's bytes.
template <bool kRequest>
class Collector final : public beast::http::basic_parser<kRequest> {
 public:
  Collector(Head& head, const HeadLimits& limits) : head_(head), limits_(limits) {
    this->header_limit(static_cast<uint32_t>(limits.bytes) + 1);
    this->body_limit(boost::none);
  }
  bool too_many_fields() const { return too_many_fields_; }

 private:
  void on_request_impl(Verb method, beast::string_view text, beast::string_view target, int version,
                       error_code&) override {
    head_.method = method;
    head_.method_text = {text.data(), text.size()};
    head_.target = {target.data(), target.size()};
    head_.version = version;
  }
  void on_response_impl(int status, beast::string_view reason, int version, error_code&) override {
    head_.status = status;
    head_.reason = {reason.data(), reason.size()};
    head_.version = version;
  }
  void on_field_impl(FieldId id, beast::string_view name, beast::string_view value,
                     error_code& error) override {
    if (head_.fields.size() == limits_.fields) {
      too_many_fields_ = true;
      error = beast::http::error::header_limit;
      return;
    }
    head_.fields.push_back({id, {name.data(), name.size()}, {value.data(), value.size()}});
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {}
  size_t on_body_impl(beast::string_view body, error_code&) override { return body.size(); }
  void on_chunk_header_impl(uint64_t, beast::string_view, error_code&) override {}
  size_t on_chunk_body_impl(uint64_t, beast::string_view body, error_code&) override { return body.size(); }
  void on_finish_impl(error_code&) override {}

  Head& head_;
  const HeadLimits& limits_;
  bool too_many_fields_ = false;
};

// The end of the head (after its empty line), 0 when it is incomplete, npos for a line that ends in a bare LF
// or continues the line before.
size_t FindEnd(std::string_view bytes, size_t& scanned) {
  size_t at = scanned;
  while (true) {
    const void* found = std::memchr(bytes.data() + at, '\n', bytes.size() - at);
    if (!found) return 0;
    const size_t lf = static_cast<size_t>(static_cast<const char*>(found) - bytes.data());
    if (lf == 0 || bytes[lf - 1] != '\r') return std::string_view::npos;
    if (lf >= 3 && bytes[lf - 2] == '\n') return lf + 1;  // the bytes after it are the body
    if (lf + 1 < bytes.size() && (bytes[lf + 1] == ' ' || bytes[lf + 1] == '\t'))
      return std::string_view::npos;
    if (lf + 1 == bytes.size()) return 0;  // look at this line's end again: a fold may follow
    at = lf + 1;
    scanned = at;
  }
}

HeadError ReadContentLength(std::string_view value, Head& head) {
  if (head.content_length) return HeadError::kBadFraming;
  uint64_t length = 0;
  const char* end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, length);
  if (error != std::errc{} || rest != end || value.empty()) return HeadError::kBadFraming;
  head.content_length = length;
  return HeadError::kNone;
}

// True for an unknown coding, for something that is not a list of codings, and for a list that only an
// attacker sends, because two parsers may read it differently.
HeadError OtherCoding(std::string_view value) {
  constexpr std::string_view kListMarks = "!#$%&'*+-.^_`|~, \t;=\"";
  bool unknown = false;
  for (const char c : value) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && kListMarks.find(c) == std::string_view::npos) return HeadError::kBadFraming;
  }
  while (!value.empty()) {
    const size_t comma = value.find(',');
    const std::string_view coding = Trim(value.substr(0, comma));
    unknown |= !coding.empty() && !conf::EqualsIgnoreCase(coding, "chunked");
    value.remove_prefix(comma == std::string_view::npos ? value.size() : comma + 1);
  }
  return unknown ? HeadError::kUnknownCoding : HeadError::kBadFraming;
}

HeadError ReadFraming(Head& head, bool request) {
  bool close = false;
  bool keep = false;
  bool coding = false;
  int hosts = 0;
  std::string_view host;
  for (const Field& field : head.fields) {
    HeadError error = HeadError::kNone;
    switch (field.id) {
      case FieldId::content_length:
        error = ReadContentLength(field.value, head);
        break;
      case FieldId::transfer_encoding:
        if (coding) error = HeadError::kBadFraming;
        if (!coding && !conf::EqualsIgnoreCase(Trim(field.value), "chunked"))
          error = OtherCoding(field.value);
        coding = true;
        head.chunked = true;
        break;
      case FieldId::connection:
        close |= HasToken(field.value, "close");
        keep |= HasToken(field.value, "keep-alive");
        head.upgrade |= HasToken(field.value, "upgrade");
        break;
      case FieldId::expect:
        if (request && !conf::EqualsIgnoreCase(field.value, "100-continue"))
          error = HeadError::kBadExpectation;
        head.expect_continue = true;
        break;
      case FieldId::host:
        ++hosts;
        host = field.value;
        break;
      default:
        break;
    }
    if (error != HeadError::kNone) return error;
  }
  if (head.chunked && (head.content_length || head.version < 11)) return HeadError::kBadFraming;
  if (request && (hosts > 1 || (hosts == 0 && head.version == 11))) return HeadError::kMalformed;
  if (request && hosts == 1 && !IsAuthority(host)) return HeadError::kBadHost;
  if (request && !head.target.empty() && head.target.front() != '/' && head.target != "*") {
    const std::optional<std::string_view> origin = OriginFormOf(head.target, host);
    if (!origin) return HeadError::kBadTarget;
    head.target = *origin;
  }
  head.keep_alive = !close && (head.version == 11 || keep);
  return HeadError::kNone;
}

template <bool kRequest>
HeadResult Parse(std::string_view bytes, const HeadLimits& limits, size_t& scanned, Head& head) {
  using State = HeadResult::State;
  const size_t end = FindEnd(bytes, scanned);
  if (end == 0 && bytes.size() <= limits.bytes) return {State::kNeedMore};
  head = Head{};  // also of a head that is refused: nothing of the one before may be taken for its own
  if (end == std::string_view::npos) return {State::kError, HeadError::kBadFraming};
  if (end == 0 || end > limits.bytes) return {State::kError, HeadError::kTooLarge};

  Collector<kRequest> parser(head, limits);
  error_code error;
  parser.put(boost::asio::const_buffer(bytes.data(), end), error);
  if (parser.too_many_fields()) return {State::kError, HeadError::kTooManyFields};
  if (error == beast::http::error::bad_version) return {State::kError, HeadError::kBadVersion};
  // Framing first: Beast's own framing errors differ from a malformed head.
  const HeadError framing = ReadFraming(head, kRequest);
  if (framing != HeadError::kNone) return {State::kError, framing};
  if (error == beast::http::error::bad_content_length || error == beast::http::error::bad_transfer_encoding) {
    return {State::kError, HeadError::kBadFraming};
  }
  if ((error && error != beast::http::error::need_more) || !parser.is_header_done()) {
    return {State::kError, HeadError::kMalformed};
  }
  return {State::kDone, HeadError::kNone, end};
}

}  // namespace

std::string_view Head::Find(FieldId id) const {
  for (const Field& field : fields) {
    if (field.id == id) return field.value;
  }
  return {};
}

std::string_view Head::Find(std::string_view name) const {
  for (const Field& field : fields) {
    if (conf::EqualsIgnoreCase(field.name, name)) return field.value;
  }
  return {};
}

std::string_view Describe(HeadError error) {
  switch (error) {
    case HeadError::kNone:
      return "";
    case HeadError::kMalformed:
      return "the request head is not valid HTTP/1.1";
    case HeadError::kBadHost:
      return "Host must be a host name or an IP address, with or without a port";
    case HeadError::kBadTarget:
      return "the request target must be a path, or an absolute URL of the host that Host names; this is not "
             "a forward proxy";
    case HeadError::kTooLarge:
      return "the request head is larger than this server accepts";
    case HeadError::kTooManyFields:
      return "the request has more header fields than this server accepts";
    case HeadError::kBadFraming:
      return "the request's framing is ambiguous: one Content-Length or one chunked Transfer-Encoding, CRLF "
             "line ends, "
             "no folded lines";
    case HeadError::kBadVersion:
      return "only HTTP/1.0 and HTTP/1.1 are supported";
    case HeadError::kUnknownCoding:
      return "the only transfer coding accepted is chunked";
    case HeadError::kBadExpectation:
      return "the only expectation accepted is 100-continue";
  }
  return "";
}

HeadResult ParseRequestHead(std::string_view bytes, const HeadLimits& limits, size_t& scanned, Head& head) {
  return Parse<true>(bytes, limits, scanned, head);
}

HeadResult ParseResponseHead(std::string_view bytes, const HeadLimits& limits, size_t& scanned, Head& head) {
  return Parse<false>(bytes, limits, scanned, head);
}

bool ResponseHasBody(const Head& head, bool to_head_request) {
  return !to_head_request && head.status >= 200 && head.status != 204 && head.status != 304;
}

bool IsHopByHop(const Field& field, std::string_view connection) {
  switch (field.id) {
    case FieldId::connection:
    case FieldId::keep_alive:
    case FieldId::proxy_authenticate:
    case FieldId::proxy_authorization:
    case FieldId::proxy_connection:
    case FieldId::te:
    case FieldId::trailer:
    case FieldId::transfer_encoding:
    case FieldId::upgrade:
      return true;
    default:
      return !connection.empty() && HasToken(connection, field.name);
  }
}

bool HasToken(std::string_view value, std::string_view token) {
  while (!value.empty()) {
    const size_t comma = value.find(',');
    if (conf::EqualsIgnoreCase(Trim(value.substr(0, comma)), token)) return true;
    if (comma == std::string_view::npos) break;
    value.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace gateway::net::http
