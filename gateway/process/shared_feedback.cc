#include "gateway/process/shared_feedback.h"

#include <utility>

#include "conf/text.h"
#include "gateway/ledger/request_id.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"

namespace gateway {

absl::Status SharedFeedback::Open(std::string id, const control::ControlPlane& gateways,
                                  UsageOfOthers usage) {
  id_ = std::move(id);
  usage_ = std::move(usage);
  calls_ = std::make_unique<feedback::GatewayCalls>(
      loop_, store_, key_,
      feedback::GatewayCalls::Options{.name = gateways.process_name(),
                                      .others = [&gateways] { return Others(gateways); },
                                      .earlier = [this] { return Earlier(); },
                                      .serve =
                                          [this](feedback::Call call, feedback::Service::Done done) {
                                            service_.Take(std::move(call), std::move(done));
                                          }});
  service_.SetElsewhere(ledger::TagOfGateway(id_), [this](feedback::Call call, feedback::Reply refused,
                                                          feedback::Service::Done done) {
    loop_.Post([this, call = std::move(call), refused = std::move(refused), done = std::move(done)] {
      loop_.tasks.Spawn(Pass(call, refused, done));
    });
  });
  return net::Await(loop_, calls_->Start());
}

void SharedFeedback::GiveUp() {
  if (calls_) calls_->GiveUp();
}

void SharedFeedback::Stop() {
  if (calls_) calls_->Stop();
}

net::Task<void> SharedFeedback::Pass(feedback::Call call, feedback::Reply refused,
                                     feedback::Service::Done done) {
  done(co_await calls_->Pass(std::move(call), std::move(refused)));
}

std::vector<feedback::OtherGateway> SharedFeedback::Others(const control::ControlPlane& gateways) {
  std::vector<feedback::OtherGateway> others;
  std::vector<control::GatewayStatus> all = gateways.gateways(net::Now());
  for (control::GatewayStatus& status : all) {
    if (status.self) continue;
    others.push_back({.name = std::move(status.record.name),
                      .id = std::move(status.record.id),
                      .public_key = std::move(status.record.public_key),
                      .live = status.live});
  }
  return others;
}

net::Task<std::vector<feedback::OtherGateway>> SharedFeedback::Earlier() {
  const auto known = co_await net::OffLoop(loop_, [this] { return KnownGateways(usage_, net::Now()); });
  std::vector<feedback::OtherGateway> earlier;
  if (!known.ok()) {
    log::Warn("the gateways of the store are not known", {{"why", conf::Std(known.status().message())}});
    co_return earlier;
  }
  for (const KnownGateway& gateway : *known) {
    if (gateway.id != id_) earlier.push_back({.name = gateway.name, .id = gateway.id});
  }
  co_return earlier;
}

}  // namespace gateway
