#include "gateway/net/http/head.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wconversion"
#include <boost/beast/http/rfc7230.hpp>
#pragma clang diagnostic pop

#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include "conf/text.h"
#include "gateway/net/http/authority.h"

namespace gateway::net::http {
namespace {

namespace beast = boost::beast;

std::string_view Trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

// RFC 9110: tchar.
constexpr std::array<bool, 256> kToken = [] {
  std::array<bool, 256> token{};
  for (unsigned char c = '0'; c <= '9'; ++c) token[c] = true;
  for (unsigned char c = 'a'; c <= 'z'; ++c) token[c] = token[c & 0xDF] = true;
  for (const char c : std::string_view("!#$%&'*+-.^_`|~")) token[static_cast<unsigned char>(c)] = true;
  return token;
}();

bool IsToken(char c) {
  return kToken[static_cast<unsigned char>(c)];
}

// A control that the text of a head must not hold. A tab is allowed.
bool IsBarred(char c) {
  return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7F;
}

// Where the text that begins at `at` has its first control.
const char* FindControl(const char* at, const char* end) {
#ifdef __SSE2__
  for (; end - at >= 16; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i below = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
    const __m128i low = _mm_andnot_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\t')), below);
    const __m128i controls = _mm_or_si128(low, _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7F)));
    if (const auto mask = static_cast<unsigned>(_mm_movemask_epi8(controls)); mask != 0)
      return at + std::countr_zero(mask);
  }
#endif
  while (at < end && !IsBarred(*at)) ++at;
  return at;
}

// Reads a head whose end is known, line by line, as views. Each function is false where the text is no HTTP.
class Reader {
 public:
  Reader(std::string_view bytes, const HeadLimits& limits, Head& head)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()), limits_(limits), head_(head) {}

  bool bad_version() const { return bad_version_; }
  bool too_many_fields() const { return too_many_fields_; }

  // method SP target SP HTTP-version CRLF
  bool RequestLine() {
    const char* from = at_;
    while (at_ < end_ && IsToken(*at_)) ++at_;
    head_.method_text = Since(from);
    if (head_.method_text.empty() || !Take(' ')) return false;
    head_.method = beast::http::string_to_verb({head_.method_text.data(), head_.method_text.size()});
    from = at_;
    while (at_ < end_ && static_cast<unsigned char>(*at_) > ' ' && *at_ != 0x7F) ++at_;
    head_.target = Since(from);
    if (head_.target.empty() || !Take(' ')) return false;
    if (!Version()) return false;
    bad_version_ = !Take('\r') || !Take('\n');
    return !bad_version_;
  }

  // HTTP-version SP 3DIGIT SP reason CRLF
  bool StatusLine() {
    if (!Version()) return false;
    bad_version_ = !Take(' ');
    if (bad_version_ || end_ - at_ < 3) return false;
    for (const char* const digits_end = at_ + 3; at_ < digits_end; ++at_) {
      if (*at_ < '0' || *at_ > '9') return false;
      head_.status = 10 * head_.status + (*at_ - '0');
    }
    if (!Take(' ')) return false;
    const char* const from = at_;
    at_ = FindControl(at_, end_);
    head_.reason = Since(from);
    return Take('\r') && Take('\n');
  }

  // *( name ":" OWS value OWS CRLF ) CRLF
  bool Fields() {
    while (at_ < end_ && *at_ != '\r') {
      if (!OneField()) return false;
    }
    return Take('\r') && Take('\n') && at_ == end_;
  }

 private:
  std::string_view Since(const char* from) const { return {from, static_cast<size_t>(at_ - from)}; }

  bool Take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  bool Version() {
    constexpr std::string_view kMajor = "HTTP/1.";
    if (end_ - at_ < 8) return false;
    const char minor = at_[kMajor.size()];
    bad_version_ = std::memcmp(at_, kMajor.data(), kMajor.size()) != 0 || (minor != '0' && minor != '1');
    head_.version = 10 + (minor - '0');
    at_ += 8;
    return !bad_version_;
  }

  bool OneField() {
    const char* from = at_;
    while (at_ < end_ && IsToken(*at_)) ++at_;
    const std::string_view name = Since(from);
    if (name.empty() || !Take(':')) return false;
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t')) ++at_;
    from = at_;
    at_ = FindControl(at_, end_);
    std::string_view value = Since(from);
    while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
    if (!Take('\r') || !Take('\n')) return false;
    const FieldId id = beast::http::string_to_field({name.data(), name.size()});
    const bool lists = id == FieldId::connection || id == FieldId::proxy_connection;
    if (lists && !beast::http::validate_list(beast::http::opt_token_list{{value.data(), value.size()}}))
      return false;
    if (head_.fields.size() == limits_.fields) {
      too_many_fields_ = true;
      return false;
    }
    head_.fields.push_back({id, name, value});
    return true;
  }

  const char* at_;
  const char* const end_;
  const HeadLimits& limits_;
  Head& head_;
  bool bad_version_ = false;
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
        error = coding ? HeadError::kBadFraming : ReadContentLength(field.value, head);
        break;
      case FieldId::transfer_encoding:
        if (coding || head.content_length) {
          error = HeadError::kBadFraming;
        } else if (!conf::EqualsIgnoreCase(Trim(field.value), "chunked")) {
          error = OtherCoding(field.value);
        }
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
  if (head.chunked && head.version < 11) return HeadError::kBadFraming;
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

  Reader reader(bytes.substr(0, end), limits, head);
  const bool well_formed = (kRequest ? reader.RequestLine() : reader.StatusLine()) && reader.Fields();
  if (reader.too_many_fields()) return {State::kError, HeadError::kTooManyFields};
  if (reader.bad_version()) return {State::kError, HeadError::kBadVersion};
  // Framing first: an attempt at smuggling is reported as such, even if the head is also malformed behind it.
  const HeadError framing = ReadFraming(head, kRequest);
  if (framing != HeadError::kNone) return {State::kError, framing};
  if (!well_formed) return {State::kError, HeadError::kMalformed};
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
