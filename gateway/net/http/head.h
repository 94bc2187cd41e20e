// Head: the start line and fields of an HTTP/1.x message as views into the bytes they were read from.
//
// By the grammar of RFC 9112 and no more: bare LF, obs-fold, doubled Content-Length, Transfer-Encoding beside
// Content-Length, unknown codings and a Host that is none are refused, as a proxy must. Names of fields and
// methods are Beast's.
#pragma once

#include <absl/container/inlined_vector.h>

#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gateway::net::http {

using FieldId = boost::beast::http::field;
using Verb = boost::beast::http::verb;

struct Field {
  FieldId id;
  std::string_view name;
  std::string_view value;
};

struct Head {
  // Requests
  Verb method = Verb::unknown;
  std::string_view method_text;
  std::string_view target;  // in origin form, also where it was sent in absolute form
  // Responses
  int status = 0;
  std::string_view reason;

  int version = 11;  // 10 or 11
  absl::InlinedVector<Field, 24> fields;

  // Framing, as the fields say.
  bool keep_alive = true;
  bool chunked = false;
  bool expect_continue = false;
  bool upgrade = false;
  std::optional<uint64_t> content_length;

  std::string_view Find(FieldId id) const;
  std::string_view Find(std::string_view name) const;
};

enum class HeadError : uint8_t {
  kNone,
  kMalformed,       // 400
  kBadHost,         // 400
  kBadTarget,       // 400
  kTooLarge,        // 431: head bytes
  kTooManyFields,   // 431
  kBadFraming,      // 400: what a smuggler would send
  kBadVersion,      // 505
  kUnknownCoding,   // 501: a transfer coding other than chunked
  kBadExpectation,  // 417
};

// A sentence for the peer; never echoes its bytes.
std::string_view Describe(HeadError error);

struct HeadLimits {
  size_t bytes = 32 * 1024;
  size_t fields = 100;
};

struct HeadResult {
  enum class State : uint8_t { kNeedMore, kDone, kError };
  State state;
  HeadError error = HeadError::kNone;
  size_t consumed = 0;  // bytes of the head when done
};

// `bytes` starts at the message. Views in `head` point into it. `scanned` remembers between calls how far the
// end of the head was looked for; 0 for a new message.
HeadResult ParseRequestHead(std::string_view bytes, const HeadLimits& limits, size_t& scanned, Head& head);
// `to_head_request`: the answer to a HEAD request, whose framing fields describe no body.
HeadResult ParseResponseHead(std::string_view bytes, const HeadLimits& limits, size_t& scanned, Head& head);

// Whether a response has a body at all (1xx, 204, 304 have none).
bool ResponseHasBody(const Head& head, bool to_head_request);

// Connection-level fields, which a proxy never passes on: Connection and what it names, Keep-Alive,
// Proxy-*, TE, Trailer, Transfer-Encoding, Upgrade.
bool IsHopByHop(const Field& field, std::string_view connection);

// Whether a comma-separated field value has this token, compared without case.
bool HasToken(std::string_view value, std::string_view token);

}  // namespace gateway::net::http
