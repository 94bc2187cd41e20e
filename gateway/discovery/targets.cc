#include "gateway/discovery/targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "conf/document.h"
#include "gateway/net/url.h"

namespace gateway::discovery {
namespace {

constexpr conf::Duration kShortestTtl = std::chrono::seconds(1);

auto KeyOf(const config::Target& target) {
  return std::tie(target.url.host, target.url.port, target.url.path, target.url.scheme);
}
auto OrderOf(const config::Target& target) {
  return std::tuple_cat(KeyOf(target), std::tie(target.authority, target.pod));
}

}  // namespace

Targets Sorted(Targets targets) {
  std::ranges::sort(targets,
                    [](const config::Target& a, const config::Target& b) { return OrderOf(a) < OrderOf(b); });
  const auto twice = std::ranges::unique(
      targets, [](const config::Target& a, const config::Target& b) { return KeyOf(a) == KeyOf(b); });
  targets.erase(twice.begin(), twice.end());
  return targets;
}

absl::StatusOr<Targets> ParseTargets(std::string_view text, const std::string& file,
                                     const config::Discovery& discovery) {
  const conf::Sources none;
  conf::Document document(text, file, none);
  Targets out;
  if (document.parsed()) {
    const conf::Value root = document.root();
    if (root.kind() == conf::Kind::kSequence) {
      for (const conf::Value& item : root.Items()) {
        std::string why;
        if (item.kind() != conf::Kind::kScalar) {
          item.ErrorExpected("an address such as 10.0.0.7:8000 or a URL");
        } else if (auto url = config::ParseTarget(item.text(), discovery, why)) {
          out.push_back({.url = *std::move(url)});
        } else {
          item.ErrorHidingValue(why);
        }
      }
    } else {
      root.ErrorExpected("a list of addresses and URLs");
    }
  }
  const std::vector<conf::Problem> problems = document.TakeProblems();
  if (!problems.empty()) {
    const std::string more = problems.size() > 1 ? fmt::format(" (and {} more)", problems.size() - 1) : "";
    return absl::InvalidArgumentError(ToString(problems.front()) + more);
  }
  if (out.size() > kMostTargets) {
    return absl::InvalidArgumentError(
        fmt::format("{} has {} addresses; {} are the most", file, out.size(), kMostTargets));
  }
  return Sorted(std::move(out));
}

Targets TargetsOf(const net::DnsAddresses& found, uint16_t port, const std::string& authority,
                  const config::Discovery& discovery) {
  Targets out;
  out.reserve(found.addresses.size());
  for (const std::string& address : found.addresses) {
    if (out.size() == kMostTargets) break;
    out.push_back({.url = {discovery.scheme, address, port, discovery.path}, .authority = authority});
  }
  return Sorted(std::move(out));
}

std::vector<net::DnsService> Foremost(std::vector<net::DnsService> services) {
  if (services.empty()) return services;
  const uint16_t first = std::ranges::min(services, {}, &net::DnsService::priority).priority;
  std::erase_if(services, [first](const net::DnsService& one) {
    return one.priority != first || one.host.empty() || one.host == "." || one.port == 0;
  });
  if (services.size() > kMostTargets) services.resize(kMostTargets);
  return services;
}

conf::Duration UntilNextLookUp(std::optional<conf::Duration> ttl, conf::Duration interval) {
  if (!ttl) return interval;
  return std::min(std::max(*ttl, kShortestTtl), interval);
}

}  // namespace gateway::discovery
