// DnsSource: the addresses of a name, or of the hosts that its SRV records name, looked up again by their time to
// live. While no name server answers, the last addresses stay; a name without addresses counts after two such
// answers.
#pragma once

#include <memory>
#include <string>

#include "gateway/discovery/source.h"
#include "gateway/net/dns.h"
#include "gateway/net/watchdog.h"

namespace gateway::discovery {

class DnsSource final : public Source, public std::enable_shared_from_this<DnsSource> {
 public:
  DnsSource(net::Loop& loop, config::Discovery discovery, Listener listener);

  void Start() override;
  void Stop() override;

 private:
  struct Answer {
    Targets targets{};
    std::optional<conf::Duration> ttl{};
    std::string trouble{};  // of some of the hosts
  };

  static net::Task<void> Run(std::shared_ptr<DnsSource> self);
  net::Task<absl::StatusOr<Answer>> LookUp();
  net::Task<absl::StatusOr<Answer>> LookUpServices();
  void Report(const absl::StatusOr<Answer>& answer);

  net::Loop& loop_;
  const config::Discovery discovery_;
  const config::DnsSource& dns_;
  const Listener listener_;
  net::DnsClient client_;
  net::Sleep pause_;
  Targets last_;
  uint32_t missing_ = 0;  // answers in a row that there are no addresses
  bool stopped_ = false;
};

}  // namespace gateway::discovery
