// Targets: from what a source says to the addresses that serve, and when to ask it again. Pure.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/config/model.h"
#include "gateway/net/dns.h"

namespace gateway::discovery {

using Targets = std::vector<config::Target>;  // sorted by URL, each once

// Of one source; further ones are left out.
inline constexpr size_t kMostTargets = 10'000;

// Sorts them and drops those that are there twice.
Targets Sorted(Targets targets);

// A list of a file, in YAML or JSON: HOST:PORT or URLs. One that is wrong makes the whole list an error.
absl::StatusOr<Targets> ParseTargets(std::string_view text, const std::string& file,
                                     const config::Discovery& discovery);

// Of a name with addresses; `authority` is that name with its port.
Targets TargetsOf(const net::DnsAddresses& found, uint16_t port, const std::string& authority,
                  const config::Discovery& discovery);

// The SRV records that are to be used: those of the lowest priority.
std::vector<net::DnsService> Foremost(std::vector<net::DnsService> services);

// How long an answer is used: its time to live where it is known, at least a second and at most `interval`.
conf::Duration UntilNextLookUp(std::optional<conf::Duration> ttl, conf::Duration interval);

}  // namespace gateway::discovery
