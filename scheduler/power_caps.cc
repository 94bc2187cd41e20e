#include "scheduler/power_caps.h"

#include <algorithm>
#include <limits>

namespace scheduler {
namespace {

constexpr double kRises = 0.5;  // of the room, at a time
constexpr double kNear = 0.98;  // of its usual limit: a cap has no effect

double FloorOf(const CappedDevice& device, const CapRule& rule) {
  return std::min(std::max(device.usual * rule.least, device.least_limit), device.usual);
}

bool IsBelow(const Cluster& cluster, NodeId node, DomainId domain) {
  for (DomainId d = cluster.nodes[node].domain; d != kNone; d = cluster.fabric.domains[d].parent) {
    if (d == domain) return true;
  }
  return false;
}

// Divides `room` among the devices: what they may draw together beyond now, or, below 0, must draw less.
void ShareOut(double room, const std::vector<size_t>& of, std::span<const CappedDevice> devices,
              const CapRule& rule, std::vector<double>& limits) {
  double weight = 0;
  for (const size_t i : of) {
    const CappedDevice& device = devices[i];
    weight += room < 0 ? std::max(0.0, device.watts - FloorOf(device, rule))
                       : device.usual - device.cap.value_or(device.usual);
  }
  for (const size_t i : of) {
    const CappedDevice& device = devices[i];
    const double floor = FloorOf(device, rule);
    double limit = device.cap.value_or(device.usual);
    if (room < 0 && weight > 0) {
      const double part = std::max(0.0, device.watts - floor) / weight;
      limit = std::min(limit, device.watts + room * part);
    } else if (room > 0 && weight > 0) {
      limit += kRises * room * (device.usual - limit) / weight;
    }
    limits[i] = std::min(limits[i], std::clamp(limit, floor, device.usual));
  }
}

}  // namespace

std::vector<std::optional<double>> DecideCaps(const Cluster& cluster, std::span<const double> drawn,
                                              std::span<const CappedDevice> devices, const CapRule& rule) {
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  std::vector<double> limits(devices.size(), kNoLimit);
  for (DomainId domain = 0; domain < cluster.fabric.domains.size(); ++domain) {
    const double budget = cluster.fabric.domains[domain].power_budget_watts;
    if (budget <= 0 || domain >= drawn.size()) continue;
    std::vector<size_t> low;
    for (size_t i = 0; i < devices.size(); ++i) {
      if (devices[i].is_low && devices[i].usual > 0 && IsBelow(cluster, devices[i].node, domain))
        low.push_back(i);
    }
    ShareOut(rule.above * budget - drawn[domain], low, devices, rule, limits);
  }
  std::vector<std::optional<double>> caps(devices.size());
  for (size_t i = 0; i < devices.size(); ++i) {
    if (limits[i] < kNear * devices[i].usual) caps[i] = limits[i];
  }
  return caps;
}

}  // namespace scheduler
