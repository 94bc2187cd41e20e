#include "gateway/control/lead/demand_elsewhere.h"

#include <algorithm>

namespace gateway::control {
namespace {

uint64_t Increase(uint64_t now, uint64_t before) {
  return now < before ? 0 : now - before;
}

}  // namespace

void DemandElsewhere::Update(const GatewayRecord& record, conf::TimePoint now) {
  const auto [known, added] = gateways_.try_emplace(record.name);
  Gateway& gateway = known->second;
  const bool begins = added || gateway.start != record.start;
  if (begins) gateway.demand.clear();
  for (const auto& [model, at] : record.demand) {
    const auto before = gateway.demand.find(model);
    // A model without demand is left out of a record: its counters begin with its first request.
    if (begins) continue;
    const DemandAt from = before == gateway.demand.end() ? DemandAt() : before->second;
    DemandAt& sum = added_[model];
    sum.work_ns += Increase(at.work_ns, from.work_ns);
    sum.came += Increase(at.came, from.came);
    sum.in_time += Increase(at.in_time, from.in_time);
    sum.late += Increase(at.late, from.late);
    sum.hopeless += Increase(at.hopeless, from.hopeless);
  }
  gateway.start = record.start;
  gateway.heard = now;
  // A model that the record leaves out has no demand now; what was counted of it stays known.
  for (auto& [model, at] : gateway.demand) at.held_work_ns = at.active = at.waiting = at.lines = 0;
  for (const auto& [model, at] : record.demand) gateway.demand[model] = at;
}

void DemandElsewhere::Gone(std::string_view name) {
  const auto known = gateways_.find(name);
  if (known == gateways_.end()) return;
  // Its counters stay known: the gateway may have been cut off, and come back.
  for (auto& [model, at] : known->second.demand) at.held_work_ns = at.active = at.waiting = at.lines = 0;
}

DemandByModel DemandElsewhere::Sum(conf::TimePoint now) const {
  DemandByModel sum = added_;
  for (const auto& [name, gateway] : gateways_) {
    for (const auto& [model, at] : gateway.demand) {
      DemandAt& of = sum[model];
      of.held_work_ns += at.held_work_ns;
      of.active += at.active;
      of.waiting += at.waiting;
      of.lines += at.lines;
      if (at.waiting > 0) of.oldest = std::max(of.oldest, at.oldest + (now - gateway.heard));
      if (at.lines > 0 && at.oldest_line > conf::Duration::zero())
        of.oldest_line = std::max(of.oldest_line, at.oldest_line + (now - gateway.heard));
    }
  }
  return sum;
}

}  // namespace gateway::control
