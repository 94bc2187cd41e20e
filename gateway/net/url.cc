#include "gateway/net/url.h"

#include <absl/strings/ascii.h>
#include <fmt/format.h>

#include <boost/url/parse.hpp>
#include <cstdint>
#include <iterator>

#include "conf/text.h"

namespace gateway::net {

std::string Bracketed(std::string_view host) {
  return host.find(':') == std::string_view::npos ? std::string(host) : fmt::format("[{}]", host);
}

std::string PercentEncode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
        std::string_view("-._~").find(c) != std::string_view::npos) {
      out += c;
    } else {
      fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string Url::Authority() const {
  const std::string name = Bracketed(host);
  const bool usual = port == (tls ? "443" : "80");
  return usual ? name : name + ":" + port;
}

absl::StatusOr<Url> ParseUrl(std::string_view text) {
  const auto parsed = boost::urls::parse_uri({text.data(), text.size()});
  if (!parsed) return absl::InvalidArgumentError(fmt::format("not a URL: \"{}\"", text));
  Url url;
  const std::string scheme(parsed->scheme());
  if (scheme != "http" && scheme != "https") {
    return absl::InvalidArgumentError(
        fmt::format("a URL of scheme \"{}\": only http and https are supported", scheme));
  }
  url.tls = scheme == "https";
  if (parsed->has_userinfo()) return absl::InvalidArgumentError("a URL must not carry credentials");
  url.host = parsed->host_address();
  if (url.host.empty()) return absl::InvalidArgumentError(fmt::format("no host in URL \"{}\"", text));
  url.port = !parsed->has_port() ? (url.tls ? "443" : "80") : std::string(parsed->port());
  // Boost.URL accepts any number of digits, and none.
  if (conf::ReadNumber<uint16_t>(url.port).value_or(0) == 0) {
    return absl::InvalidArgumentError(
        fmt::format("port \"{}\" in URL \"{}\": must be 1 to 65535", url.port, text));
  }
  url.path = std::string(parsed->encoded_path());
  // Boost.URL takes the text after the port's digits for a path.
  if (!url.path.empty() && url.path.front() != '/') {
    return absl::InvalidArgumentError(fmt::format("the path of URL \"{}\" must begin with /", text));
  }
  url.query = std::string(parsed->encoded_query());
  return url;
}

}  // namespace gateway::net
