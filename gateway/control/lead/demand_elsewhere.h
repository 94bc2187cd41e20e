// DemandElsewhere: the demand at other gateways, added up for the leader.
//
// A gateway's counters count since its start, so only their increases are added: what a gateway had counted before
// its first record was read here is no new demand. Its present requests (active, waiting) count until it is gone.
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
  // A gateway's new record.
  void Update(const GatewayRecord& record, conf::TimePoint now);
  // The gateway is gone, and so are its requests.
  void Gone(std::string_view name);

  // All gateways together. Ages of requests include the time since their report.
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
