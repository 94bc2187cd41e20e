// Look-ups in DNS that say how long their answers hold, and of SRV records, by c-ares: asynchronous, on one loop.
//
// For discovery, which looks names up beside requests; a request's own connections use resolver.h. The system's
// settings (resolv.conf, hosts, search domains) are read anew for each look-up.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/net/loop.h"
#include "gateway/net/task.h"

namespace gateway::net {

struct DnsAddresses {
  std::vector<std::string> addresses;  // IP literals, sorted, each once
  std::optional<conf::Duration>
      ttl;  // the shortest of the records; absent: they come from the system's files
};

struct DnsService {
  std::string host;
  uint16_t port = 0;
  uint16_t priority = 0;  // lower ones are tried first
  uint16_t weight = 0;
};

class DnsClient {
 public:
  struct Options {
    std::string server;  // ADDRESS or ADDRESS:PORT, asked alone; empty: as the system has it
    conf::Duration timeout = std::chrono::seconds(2);  // of the first try; c-ares doubles it
    int tries = 3;
  };

  DnsClient(Loop& loop, Options options);
  ~DnsClient();  // after its look-ups have ended
  DnsClient(const DnsClient&) = delete;
  DnsClient& operator=(const DnsClient&) = delete;

  // The addresses of each name, in their order. NotFound: the name does not exist, or has none; Unavailable: no
  // name server answers, or none can. Names are asked for at the same time.
  Task<std::vector<absl::StatusOr<DnsAddresses>>> FindAddresses(std::vector<std::string> names);
  // Errors as above.
  Task<absl::StatusOr<std::vector<DnsService>>> FindServices(std::string name);
  // Look-ups under way end at once.
  void Cancel();

 private:
  class LookUp;

  Loop& loop_;
  const Options options_;
  std::vector<std::shared_ptr<LookUp>> under_way_;
};

}  // namespace gateway::net
