#include "gateway/config/discovery.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "conf/reader.h"
#include "conf/text.h"
#include "conf/words.h"
#include "gateway/config/kubernetes.h"
#include "gateway/net/url.h"

namespace gateway::config {
namespace {

constexpr std::string_view kSchemes[] = {"http", "https"};

bool IsIpLiteral(const std::string& host) {
  in6_addr v6;
  in_addr v4;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 || inet_pton(AF_INET, host.c_str(), &v4) == 1;
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.';
}

struct DnsName {
  std::string operator()(const std::string& name) const {
    constexpr size_t kLongest = 253;
    if (name.empty() || name.size() > kLongest || !std::ranges::all_of(name, IsNameCharacter) ||
        name.front() == '.' || name.find("..") != std::string::npos)
      return "must be a name in DNS, such as vllm.example.com or _http._tcp.vllm.example.com";
    if (IsIpLiteral(name)) return "is an address; give it as url";
    return {};
  }
};

// ADDRESS or ADDRESS:PORT.
struct NameServer {
  std::string operator()(const std::string& text) const {
    if (IsIpLiteral(text)) return {};
    const auto url = net::ParseUrl("http://" + text);
    if (url.ok() && IsIpLiteral(url->host) && url->path.empty()) return {};
    return "must be the IP address of a name server, with a port where it is not 53: 10.0.0.10 or "
           "127.0.0.1:5353";
  }
};

struct ServicePort {
  std::string operator()(const std::string& port) const {
    const bool digits = std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
    if (digits) {
      const auto number = conf::ReadNumber<uint16_t>(port);
      return number && *number > 0 ? "" : "must be a port between 1 and 65535, or its name in the Service";
    }
    return DnsLabel()(port);
  }
};

struct KnownScheme {
  std::string operator()(const std::string& scheme) const {
    return std::ranges::find(kSchemes, scheme) == std::end(kSchemes) ? "must be http or https" : "";
  }
};

}  // namespace

static void Bind(conf::Object& o, KubernetesSource& source) {
  o.Required("service", source.service, DnsLabel());
  o.Optional("port", source.port, ServicePort());
  o.Optional("namespace", source.service_namespace, DnsLabel());
}

std::string SourceOf(const Discovery& discovery) {
  if (discovery.dns) {
    std::string out = "dns:" + discovery.dns->name;
    if (discovery.dns->port) out += fmt::format(":{}", *discovery.dns->port);
    if (!discovery.dns->resolver.empty()) out += "@" + discovery.dns->resolver;
    return out;
  }
  if (discovery.file) return "file:" + discovery.file->path;
  if (!discovery.kubernetes) return {};
  const KubernetesSource& of = *discovery.kubernetes;
  std::string out = "kubernetes:";
  if (!of.service_namespace.empty()) out += of.service_namespace + "/";
  out += of.service;
  if (!of.port.empty()) out += ":" + of.port;
  return out;
}

std::string DefaultName(const Discovery& discovery) {
  if (discovery.dns) return discovery.dns->name;
  if (discovery.kubernetes) return discovery.kubernetes->service;
  if (!discovery.file) return {};
  const std::string& path = discovery.file->path;
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.substr(0, name.rfind('.'));
}

std::optional<Url> ParseTarget(std::string_view text, const Discovery& discovery, std::string& why) {
  const bool whole = text.find("://") != std::string_view::npos;
  const auto parsed =
      net::ParseUrl(whole ? std::string(text) : fmt::format("{}://{}", discovery.scheme, text));
  const size_t colon = text.rfind(':');
  const bool port = colon != std::string_view::npos && colon + 1 < text.size() && text[colon + 1] >= '0' &&
                    text[colon + 1] <= '9' && text.find(']', colon) == std::string_view::npos;
  if (!parsed.ok() || !parsed->query.empty() || text.find('@') != std::string_view::npos) {
    why = "must be an address such as 10.0.0.7:8000, or a URL";
    return std::nullopt;
  }
  if (!whole && (!port || !parsed->path.empty())) {
    why = "has no port; write HOST:PORT or a URL";
    return std::nullopt;
  }
  Url out;
  out.scheme = parsed->tls ? "https" : "http";
  out.host = parsed->host;
  out.port = conf::ReadNumber<uint16_t>(parsed->port).value_or(0);
  out.path = whole && !parsed->path.empty() && parsed->path != "/" ? parsed->path : discovery.path;
  while (out.path.ends_with('/')) out.path.pop_back();
  if (out.path.ends_with("/v1")) out.path.resize(out.path.size() - 3);
  if (out.scheme != discovery.scheme) {
    why = fmt::format("begins with {}://, and the endpoint with {}://; give both the same scheme", out.scheme,
                      discovery.scheme);
    return std::nullopt;
  }
  return out;
}

void BindDiscovery(conf::Object& o, std::optional<Discovery>& out) {
  if (!o.reading()) {
    if (!out) return;
    if (out->dns) {
      o.Optional("dns", out->dns->name);
      o.Optional("port", out->dns->port);
      o.Optional("resolver", out->dns->resolver);
      o.Optional("interval", out->dns->interval);
    }
    if (out->file) o.Optional("file", out->file->path);
    o.Optional("kubernetes", out->kubernetes);
    o.Optional("scheme", out->scheme);
    o.Optional("path", out->path);
    return;
  }
  Discovery read;
  DnsSource dns;
  FileSource file;
  o.Optional("dns", dns.name, DnsName());
  o.Optional("port", dns.port, conf::AtLeast{uint16_t{1}});
  o.Optional("resolver", dns.resolver, NameServer());
  o.Optional(
      "interval", dns.interval,
      conf::Range{conf::Duration(std::chrono::milliseconds(100)), conf::Duration(std::chrono::hours(1))});
  o.Optional("file", file.path, conf::NotEmpty());
  o.Optional("kubernetes", read.kubernetes);
  o.Optional("scheme", read.scheme, KnownScheme());
  o.Optional("path", read.path, AbsolutePath());
  size_t sources = 0;
  for (const std::string_view key : {"dns", "file", "kubernetes"}) sources += o.Has(key) ? 1 : 0;
  if (sources > 1 || (sources == 1 && o.Has("url"))) {
    o.Error("give one of url, dns, file and kubernetes");
    return;
  }
  for (const std::string_view key : {"port", "resolver", "interval"}) {
    if (o.Has(key) && !o.Has("dns")) o.Error("has no effect without dns", key);
  }
  for (const std::string_view key : {"scheme", "path"}) {
    if (o.Has(key) && sources == 0) o.Error("has no effect on a URL, which has its own", key);
  }
  if (sources == 0) return;
  if (o.Has("dns")) {
    if (!dns.srv() && !dns.name.empty() && !o.Has("port"))
      o.Error("is required with dns, unless the name has SRV records (_http._tcp.NAME)", "port");
    if (dns.srv() && o.Has("port"))
      o.Error("has no effect on SRV records, which have their own ports", "port");
    read.dns = std::move(dns);
  }
  if (o.Has("file")) read.file = std::move(file);
  if (read.scheme.empty()) read.scheme = o.Has("tls") ? "https" : "http";
  while (read.path.ends_with('/')) read.path.pop_back();
  if (read.path.ends_with("/v1")) read.path.resize(read.path.size() - 3);
  out = std::move(read);
}

}  // namespace gateway::config
