// The gateways that this user has signed in to: their addresses and sessions, in
// $XDG_CONFIG_HOME/tidegate/gateways.json (~/.config without that variable), mode 0600. One of them is the current
// one, which commands ask that are told no other.
//
// The file is replaced as a whole; a file that others may read is refused. Blocks.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <vector>

#include "conf/secret.h"
#include "conf/time.h"
#include "gateway/net/url.h"

namespace gateway::cli {

struct KnownGateway {
  std::string url;               // in its one form: AddressText
  conf::Secret token;            // of the session
  std::string actor;             // whose it is
  conf::TimePoint ends = {};     // at the latest
  std::string ca = {};           // of https; empty: the system's
  std::string server_name = {};  // likewise; empty: the host of the URL
};

struct KnownGateways {
  std::string current;  // a URL; empty: none
  std::vector<KnownGateway> all;

  // Null: there is none. Valid until the next change.
  const KnownGateway* Find(const std::string& url) const;
  const KnownGateway* Current() const { return Find(current); }
  // Replaces the one with its URL, and makes it the current one.
  void Put(KnownGateway gateway);
  // Without it, another is the current one where there is just one left.
  void Remove(const std::string& url);
};

// Empty: there is no place for it, as neither HOME nor XDG_CONFIG_HOME is set.
std::string GatewaysPath();
// None when there is no file.
absl::StatusOr<KnownGateways> LoadGateways(const std::string& path);
absl::Status SaveGateways(const std::string& path, const KnownGateways& gateways);

// The one form of a gateway's address: https://HOST:PORT/PATH without the default port and a slash at the end.
std::string AddressText(const net::Url& url);

}  // namespace gateway::cli
