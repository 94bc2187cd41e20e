// SharedFeedback: feedback among the gateways of one store: a call whose request another gateway has served reaches that
// one, and this one answers the calls of others (feedback/gateway_calls.h).
//
// Owner: the Process; stopped before it is destroyed. Thread: the control loop's.
#pragma once

#include <absl/status/status.h>

#include <memory>
#include <string>
#include <vector>

#include "gateway/audit/all_usage.h"
#include "gateway/control/control_plane.h"
#include "gateway/feedback/box_key.h"
#include "gateway/feedback/gateway_calls.h"
#include "gateway/feedback/service.h"
#include "gateway/net/loop.h"
#include "gateway/store/store.h"

namespace gateway {

class SharedFeedback {
 public:
  // All must outlive it.
  SharedFeedback(net::Loop& loop, store::Store& store, feedback::Service& service)
      : loop_(loop), store_(store), service_(service) {}

  // For this gateway's record.
  const std::string& public_key() const { return key_.public_half(); }
  // Before any call. `id`: of this gateway's state folder. `gateways` must outlive it, too. Blocks.
  absl::Status Open(std::string id, const control::ControlPlane& gateways, UsageOfOthers usage);
  // Calls that wait for other gateways are refused.
  void GiveUp();
  void Stop();

 private:
  static std::vector<feedback::OtherGateway> Others(const control::ControlPlane& gateways);
  // The gateways that were there within the last days, without this one.
  net::Task<std::vector<feedback::OtherGateway>> Earlier();
  net::Task<void> Pass(feedback::Call call, feedback::Reply refused, feedback::Service::Done done);

  net::Loop& loop_;
  store::Store& store_;
  feedback::Service& service_;
  const feedback::BoxKey key_;
  std::string id_;
  UsageOfOthers usage_;
  std::unique_ptr<feedback::GatewayCalls> calls_;  // null: not open yet
};

}  // namespace gateway
