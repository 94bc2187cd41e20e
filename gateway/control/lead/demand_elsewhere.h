// DemandElsewhere: the demand that other gateways see, added up for the one that leads.
//
// A gateway's counters count since its start, so only their increases are added: what it counted before it was
// first heard of here is no new demand. What it has now (active, waiting) counts until it is gone.
//
// Pure: records and the time come in. One thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "gateway/control/lead/gateway_record.h"

namespace gateway::control {

class DemandElsewhere {
 public:
  // News of a gateway.
  void Update(const GatewayRecord& record, conf::TimePoint now);
  // It is gone: its requests are, too.
  void Gone(std::string_view name);

  // All gateways together. The oldest waiting request has become older since it was told of.
  DemandByModel Sum(conf::TimePoint now) const;

 private:
  struct Gateway {
    std::string start;
    conf::TimePoint heard{};
    DemandByModel demand;
  };

  std::map<std::string, Gateway, std::less<>> gateways_;
  DemandByModel added_;  // counters alone
};

}  // namespace gateway::control
