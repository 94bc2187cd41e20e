#include "gateway/config/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "conf/reader.h"
#include "gateway/config/types.h"

namespace gateway::config {
namespace {

constexpr std::string_view kSslMode = "sslmode";
constexpr std::string_view kHost = "host";

// The parts of a URL of PostgreSQL that decide how it is reached.
struct StateUrl {
  bool has_password = false;
  bool has_database = false;
  bool local = true;  // loopback, or a socket of this machine
  std::string ssl_mode;
  std::string problem;
};

std::vector<std::string_view> SplitAt(std::string_view text, char at) {
  std::vector<std::string_view> out;
  while (true) {
    const size_t end = text.find(at);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

// Without its port and brackets.
std::string HostOf(std::string_view host) {
  if (host.starts_with('[')) return std::string(host.substr(1, host.find(']') - 1));
  return std::string(host.substr(0, host.find(':')));
}

bool IsLocalHost(const std::string& host) {
  return host.empty() || host.starts_with('/') || host.starts_with("%2F") || host.starts_with("%2f") ||
         IsLoopbackHost(host);
}

StateUrl ParseStateUrl(std::string_view text) {
  StateUrl url;
  for (const std::string_view scheme : {"postgres://", "postgresql://"}) {
    if (!text.starts_with(scheme)) continue;
    text.remove_prefix(scheme.size());
    const size_t query_at = text.find('?');
    const std::string_view query =
        query_at == std::string_view::npos ? std::string_view() : text.substr(query_at + 1);
    text = text.substr(0, query_at);
    const size_t slash = text.find('/');
    url.has_database = slash != std::string_view::npos && slash + 1 < text.size();
    std::string_view hosts = text.substr(0, slash);
    if (const size_t at = hosts.rfind('@'); at != std::string_view::npos) {
      url.has_password = hosts.substr(0, at).find(':') != std::string_view::npos;
      hosts.remove_prefix(at + 1);
    }
    for (const std::string_view host : SplitAt(hosts, ','))
      url.local = url.local && IsLocalHost(HostOf(host));
    if (query.empty()) return url;
    for (const std::string_view option : SplitAt(query, '&')) {
      const std::string_view name = option.substr(0, option.find('='));
      const std::string value(option.substr(std::min(option.size(), name.size() + 1)));
      if (name == kSslMode) {
        url.ssl_mode = value;
      } else if (name == kHost) {
        for (const std::string_view host : SplitAt(value, ',')) {
          url.local = url.local && IsLocalHost(std::string(host));
        }
      } else if (name == "password") {
        url.has_password = true;
      } else {
        url.problem = fmt::format("unknown option \"{}\"; it takes sslmode and host", name);
      }
    }
    return url;
  }
  url.problem = "expected postgres://USER@HOST:PORT/DATABASE";
  return url;
}

std::string WrongStateUrl(const StateUrl& url) {
  if (!url.problem.empty()) return url.problem;
  if (!url.has_database) return "needs the name of a database: postgres://USER@HOST:PORT/DATABASE";
  if (!url.ssl_mode.empty() && url.ssl_mode != "verify-full" && url.ssl_mode != "disable") {
    return fmt::format(
        "sslmode={} does not prove which server answers; use verify-full, or disable in a "
        "network that you trust",
        url.ssl_mode);
  }
  return {};
}

// A URL whose password must not be repeated.
struct CheckedStateUrl {
  std::string* out;
};

void Read(const conf::Value& value, const CheckedStateUrl& field) {
  if (value.kind() != conf::Kind::kScalar) {
    value.ErrorExpected("postgres://USER@HOST:PORT/DATABASE");
    return;
  }
  const StateUrl url = ParseStateUrl(value.text());
  if (url.has_password) {
    value.ErrorHidingValue("must have no password; name it under password: env:NAME or file:PATH");
    return;
  }
  if (const std::string problem = WrongStateUrl(url); !problem.empty()) {
    value.Error(problem);
    return;
  }
  *field.out = value.text();
}
void Write(conf::Writer& writer, const CheckedStateUrl& field) {
  conf::Write(writer, *field.out);
}

bool Verifies(const StateUrl& url) {
  return url.ssl_mode.empty() ? !url.local : url.ssl_mode == "verify-full";
}

}  // namespace

std::string State::full_url() const {
  const StateUrl parsed = ParseStateUrl(url);
  if (!parsed.ssl_mode.empty()) return url;
  return fmt::format("{}{}sslmode={}", url, url.find('?') == std::string::npos ? '?' : '&',
                     Verifies(parsed) ? "verify-full" : "disable");
}

void Bind(conf::Object& o, State& state) {
  o.Required("url", CheckedStateUrl{&state.url});
  o.Optional("password", state.password);
  o.Optional("ca", state.ca, conf::NotEmpty());
  o.Optional("certificate", state.certificate, conf::NotEmpty());
  o.Optional("key", state.key, conf::NotEmpty());
  o.Optional(
      "timeout", state.timeout,
      conf::Range{conf::Duration(std::chrono::milliseconds(100)), conf::Duration(std::chrono::minutes(1))});
  if (state.url.empty()) return;
  const bool verifies = Verifies(ParseStateUrl(state.url));
  if (verifies && state.ca.empty()) {
    o.Error(
        "needs ca: the file of the authority that signed the server's certificate, such as "
        "/etc/ssl/certs/ca-certificates.crt",
        "url");
  }
  if (!verifies && !state.ca.empty()) o.Error("has no effect without sslmode=verify-full", "ca");
  if (state.certificate.empty() != state.key.empty())
    o.Error("certificate and key belong together", state.key.empty() ? "certificate" : "key");
}

void Read(const conf::Value& value, State& out) {
  if (value.kind() != conf::Kind::kScalar) {
    conf::Object object(value);
    Bind(object, out);
    return;
  }
  Read(value, CheckedStateUrl{&out.url});
  if (!out.url.empty() && Verifies(ParseStateUrl(out.url)))
    value.Error("needs ca: write it as state: {url: …, password: env:NAME, ca: FILE}");
}

}  // namespace gateway::config
