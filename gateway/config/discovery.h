// The source of an endpoint's addresses, where the endpoint has no URL: a name in DNS, a file that is followed,
// or a Service of Kubernetes. Each address is a replica of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "gateway/config/types.h"

namespace conf {
class Object;
}

namespace gateway::config {

// A name with addresses, or one of SRV records (`_http._tcp.vllm.example.com`), which have ports of their own.
struct DnsSource {
  std::string name{};
  std::optional<uint16_t> port{};  // required where the name has addresses
  std::string resolver{};          // ADDRESS[:PORT] of the name server; empty: as the system has it
  conf::Duration interval = std::chrono::seconds(10);  // the longest time between two look-ups

  bool srv() const { return name.starts_with('_'); }
  friend bool operator==(const DnsSource&, const DnsSource&) = default;
};

// A list of addresses (HOST:PORT) and URLs, in YAML or JSON.
struct FileSource {
  std::string path{};

  friend bool operator==(const FileSource&, const FileSource&) = default;
};

struct KubernetesSource {
  std::string service{};
  std::string port{};               // its number, or its name in the Service; empty: the only one
  std::string service_namespace{};  // empty: that of section `kubernetes`

  friend bool operator==(const KubernetesSource&, const KubernetesSource&) = default;
};

struct Discovery {
  std::optional<DnsSource> dns{};  // one of the three
  std::optional<FileSource> file{};
  std::optional<KubernetesSource> kubernetes{};
  std::string scheme{};  // http or https, of addresses; https where the endpoint has `tls`
  std::string path{};    // put before each request's path, as that of a URL

  friend bool operator==(const Discovery&, const Discovery&) = default;
};

// Identifies the source, whatever is done with its addresses: "dns:vllm.example.com:8000",
// "file:/etc/tidegate/replicas.yaml", "kubernetes:models/vllm:8000".
std::string SourceOf(const Discovery& discovery);
// The name of an endpoint that gives none.
std::string DefaultName(const Discovery& discovery);

// An address as a list of a file has it: HOST:PORT or a URL, with the scheme and path of the source where it has
// none. Nothing, and the reason in `why`, if it is neither.
std::optional<Url> ParseTarget(std::string_view text, const Discovery& discovery, std::string& why);

// The fields of an endpoint that say where its addresses come from; nothing where it has a URL.
void BindDiscovery(conf::Object& object, std::optional<Discovery>& out);

}  // namespace gateway::config
