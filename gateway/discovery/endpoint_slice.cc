#include "gateway/discovery/endpoint_slice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "conf/text.h"

namespace gateway::discovery {
namespace {

using nlohmann::json;

const json* Find(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string TextAt(const json& object, const char* key) {
  const json* const found = Find(object, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

// A condition that is not given is not known, which v1 has consumers take for `absent`.
bool ConditionAt(const json& endpoint, const char* name, bool absent) {
  const json* const conditions = Find(endpoint, "conditions");
  const json* const found = conditions == nullptr ? nullptr : Find(*conditions, name);
  return found != nullptr && found->is_boolean() ? found->get<bool>() : absent;
}

std::string ZoneOf(const json& endpoint) {
  if (std::string zone = TextAt(endpoint, "zone"); !zone.empty()) return zone;
  const json* const topology = Find(endpoint, "topology");  // v1beta1
  return topology == nullptr ? std::string() : TextAt(*topology, "topology.kubernetes.io/zone");
}

std::string PodOf(const json& endpoint) {
  const json* const of = Find(endpoint, "targetRef");
  if (of == nullptr || TextAt(*of, "kind") != "Pod") return {};
  return fmt::format("{}/{}", TextAt(*of, "namespace"), TextAt(*of, "name"));
}

// The port that the source asks for, among those of a slice; nothing: it has none.
std::optional<uint16_t> PortOf(const EndpointSlice& slice, const std::string& asked) {
  const std::optional<uint16_t> number = conf::ReadNumber<uint16_t>(asked);
  if (asked.empty()) {
    if (slice.ports.size() != 1 || slice.ports.front().number == 0) return std::nullopt;
    return slice.ports.front().number;
  }
  if (number && slice.ports.empty()) return number;
  for (const SlicePort& port : slice.ports) {
    if (number && (port.number == *number || port.number == 0)) return number;
    if (!number && port.name == asked && port.number != 0) return port.number;
  }
  return std::nullopt;
}

std::string WrongPort(const EndpointSlice& slice, const config::KubernetesSource& source) {
  std::vector<std::string> names;
  for (const SlicePort& port : slice.ports) {
    names.push_back(port.name.empty() ? fmt::format("{}", port.number)
                                      : fmt::format("{} ({})", port.name, port.number));
  }
  const std::string has = names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
  if (source.port.empty())
    return fmt::format("set port: service {} has not one port, but {}", source.service, has);
  return fmt::format("service {} has no port {}; its pods listen on {}", source.service, source.port, has);
}

}  // namespace

absl::StatusOr<EndpointSlice> ParseEndpointSlice(const json& object) {
  const std::string type = TextAt(object, "addressType");
  if (type != "IPv4" && type != "IPv6") {
    return absl::InvalidArgumentError(
        fmt::format("an EndpointSlice of the address type \"{}\", which is not used", type));
  }
  EndpointSlice out;
  out.ipv6 = type == "IPv6";
  if (const json* const ports = Find(object, "ports"); ports != nullptr && ports->is_array()) {
    for (const json& port : *ports) {
      const json* const number = Find(port, "port");
      const std::string protocol = TextAt(port, "protocol");
      if (!protocol.empty() && protocol != "TCP") continue;
      const int64_t value = number != nullptr && number->is_number_integer() ? number->get<int64_t>() : 0;
      if (value < 0 || value > 65'535) continue;
      out.ports.push_back({TextAt(port, "name"), static_cast<uint16_t>(value)});
    }
  }
  const json* const endpoints = Find(object, "endpoints");
  if (endpoints == nullptr || !endpoints->is_array()) return out;
  out.endpoints.reserve(endpoints->size());
  for (const json& endpoint : *endpoints) {
    const json* const addresses = Find(endpoint, "addresses");
    if (addresses == nullptr || !addresses->is_array() || addresses->empty()) continue;
    if (!addresses->front().is_string()) continue;
    out.endpoints.push_back({.address = addresses->front().get<std::string>(),  // all are one endpoint's
                             .pod = PodOf(endpoint),
                             .zone = ZoneOf(endpoint),
                             .ready = ConditionAt(endpoint, "ready", true),
                             .terminating = ConditionAt(endpoint, "terminating", false)});
  }
  return out;
}

ServiceTargets TargetsOf(const std::map<std::string, EndpointSlice>& slices,
                         const config::Discovery& discovery) {
  ServiceTargets out;
  std::set<std::string_view> pods;
  for (const bool ipv6 : {false, true}) {
    for (const auto& [name, slice] : slices) {
      if (slice.ipv6 != ipv6 || slice.endpoints.empty()) continue;
      const std::optional<uint16_t> port = PortOf(slice, discovery.kubernetes->port);
      if (!port) {
        out.trouble = WrongPort(slice, *discovery.kubernetes);
        continue;
      }
      for (const SliceEndpoint& endpoint : slice.endpoints) {
        const bool seen = !endpoint.pod.empty() && pods.contains(endpoint.pod);
        if (seen && ipv6) continue;
        if (!endpoint.pod.empty()) pods.insert(endpoint.pod);
        if (endpoint.terminating || !endpoint.ready) {
          if (!seen) ++(endpoint.terminating ? out.terminating : out.not_ready);
          continue;
        }
        if (out.targets.size() == kMostTargets) {
          out.trouble = fmt::format("service {} has more than {} addresses; the others are not used",
                                    discovery.kubernetes->service, kMostTargets);
          continue;
        }
        out.targets.push_back({.url = {discovery.scheme, endpoint.address, *port, discovery.path},
                               .pod = endpoint.pod,
                               .zone = endpoint.zone});
      }
    }
  }
  out.targets = Sorted(std::move(out.targets));
  return out;
}

}  // namespace gateway::discovery
