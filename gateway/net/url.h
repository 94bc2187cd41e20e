// Url: the parts of an absolute http or https URL. Boost.URL parses it.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace gateway::net {

struct Url {
  bool tls = false;
  std::string host;   // without brackets
  std::string port;   // always set: 1 to 65535
  std::string path;   // begins with '/' or is empty
  std::string query;  // behind the '?', or empty

  // host:port as a Host header wants it: brackets for IPv6, no default port.
  std::string Authority() const;
};

// A host as an authority has it: an IPv6 address in brackets.
std::string Bracketed(std::string_view host);

// A text as a part of a path, a query or a form: all but the unreserved characters of RFC 3986 as "%2F".
std::string PercentEncode(std::string_view text);

absl::StatusOr<Url> ParseUrl(std::string_view text);

}  // namespace gateway::net
