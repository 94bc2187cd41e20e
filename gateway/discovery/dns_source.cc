#include "gateway/discovery/dns_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "conf/text.h"

namespace gateway::discovery {
namespace {

constexpr conf::Duration kAgainAfterError = std::chrono::seconds(1);

std::string WithPort(const std::string& host, uint16_t port) {
  return fmt::format("{}:{}", host, port);
}

}  // namespace

DnsSource::DnsSource(net::Loop& loop, config::Discovery discovery, Listener listener)
    : loop_(loop),
      discovery_(std::move(discovery)),
      dns_(*discovery_.dns),
      listener_(std::move(listener)),
      client_(loop, {.server = dns_.resolver}),
      pause_(loop.watchdog) {}

void DnsSource::Start() {
  loop_.tasks.Spawn(Run(shared_from_this()));
}

void DnsSource::Stop() {
  stopped_ = true;
  client_.Cancel();
  pause_.Cancel();
}

net::Task<void> DnsSource::Run(std::shared_ptr<DnsSource> self) {
  while (!self->stopped_) {
    const absl::StatusOr<Answer> answer = co_await self->LookUp();
    if (self->stopped_) break;
    self->Report(answer);
    const conf::Duration interval = self->dns_.interval;
    (void)co_await self->pause_.For(answer.ok() ? UntilNextLookUp(answer->ttl, interval)
                                                : std::min(kAgainAfterError, interval));
  }
}

net::Task<absl::StatusOr<DnsSource::Answer>> DnsSource::LookUp() {
  if (dns_.srv()) co_return co_await LookUpServices();
  std::vector<std::string> names{dns_.name};
  const std::vector<absl::StatusOr<net::DnsAddresses>> found =
      co_await client_.FindAddresses(std::move(names));
  if (!found.front().ok()) co_return found.front().status();
  const uint16_t port = dns_.port.value_or(0);
  co_return Answer{.targets = TargetsOf(*found.front(), port, WithPort(dns_.name, port), discovery_),
                   .ttl = found.front()->ttl};
}

net::Task<absl::StatusOr<DnsSource::Answer>> DnsSource::LookUpServices() {
  absl::StatusOr<std::vector<net::DnsService>> services = co_await client_.FindServices(dns_.name);
  if (!services.ok()) co_return services.status();
  const std::vector<net::DnsService> used = Foremost(*std::move(services));
  std::vector<std::string> hosts;
  hosts.reserve(used.size());
  for (const net::DnsService& service : used) hosts.push_back(service.host);
  std::ranges::sort(hosts);
  const auto twice = std::ranges::unique(hosts);
  hosts.erase(twice.begin(), twice.end());
  const std::vector<absl::StatusOr<net::DnsAddresses>> found = co_await client_.FindAddresses(hosts);
  Answer answer;
  for (const net::DnsService& service : used) {
    const auto at = std::ranges::lower_bound(hosts, service.host) - hosts.begin();
    const absl::StatusOr<net::DnsAddresses>& of = found[static_cast<size_t>(at)];
    const std::string authority = WithPort(service.host, service.port);
    if (of.ok()) {
      std::ranges::move(TargetsOf(*of, service.port, authority, discovery_),
                        std::back_inserter(answer.targets));
      if (of->ttl) answer.ttl = std::min(answer.ttl.value_or(*of->ttl), *of->ttl);
      continue;
    }
    answer.trouble = std::string(conf::Std(of.status().message()));
    if (absl::IsNotFound(of.status())) continue;
    for (const config::Target& known : last_) {
      if (known.authority == authority) answer.targets.push_back(known);
    }
  }
  answer.targets = Sorted(std::move(answer.targets));
  co_return answer;
}

void DnsSource::Report(const absl::StatusOr<Answer>& answer) {
  if (answer.ok()) {
    missing_ = 0;
    last_ = answer->targets;
    listener_.found(last_);
    listener_.trouble(answer->trouble);
    return;
  }
  missing_ = absl::IsNotFound(answer.status()) ? missing_ + 1 : 0;
  if (missing_ > 1 || (missing_ > 0 && last_.empty())) {
    last_.clear();
    listener_.found({});
  }
  listener_.trouble(std::string(conf::Std(answer.status().message())));
}

}  // namespace gateway::discovery
