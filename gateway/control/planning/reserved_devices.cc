#include "gateway/control/planning/reserved_devices.h"

#include <algorithm>
#include <map>

namespace gateway::control {
namespace {

constexpr const char* kEveryKind = "*";

int64_t Milli(uint64_t devices) {
  return static_cast<int64_t>(devices) * scheduler::kWholeDevice;
}

// Which part of their deserved devices the configured queues keep, by kind or "*".
std::map<std::string, double> PartsLeft(const std::vector<scheduler::Queue>& queues,
                                        std::span<const ReservedDevices> reserved,
                                        const scheduler::Cluster& cluster) {
  std::map<std::string, int64_t> promised;  // to queues below the root
  bool mixed = false;                       // some quotas are for one kind, others for all kinds
  for (const scheduler::Queue& queue : queues) {
    for (const auto& [kind, milli] : queue.deserved) {
      if (queue.parent.empty()) promised[kind] += milli;
      mixed = mixed || kind == kEveryKind;
    }
  }
  std::map<std::string, double> parts;
  double least = 1;
  for (const auto& [kind, milli] : promised) {
    int64_t left = 0;
    for (const scheduler::DeviceKind& one : cluster.kinds) {
      if (kind == kEveryKind || kind == one.name) left += Milli(scheduler::DevicesOf(cluster, one.name));
    }
    for (const ReservedDevices& reservation : reserved) {
      if (kind == kEveryKind || kind == reservation.kind) left -= Milli(reservation.count);
    }
    double& part = parts[kind];
    part = 1;
    if (milli > left) part = static_cast<double>(std::max<int64_t>(0, left)) / static_cast<double>(milli);
    least = std::min(least, part);
  }
  // The quotas of children stay within their parent's, which may be of all kinds.
  if (mixed) {
    for (auto& [kind, part] : parts) part = least;
  }
  return parts;
}

void Shrink(scheduler::DeviceQuota& quota, const std::map<std::string, double>& parts, double otherwise) {
  for (auto& [kind, milli] : quota) {
    const auto part = parts.find(kind);
    const double left = part == parts.end() ? otherwise : part->second;
    if (left < 1) milli = static_cast<int64_t>(static_cast<double>(milli) * left);
  }
}

}  // namespace

std::vector<scheduler::Queue> WithReservations(std::vector<scheduler::Queue> configured,
                                               std::span<const ReservedDevices> reserved,
                                               const scheduler::Cluster& cluster) {
  if (reserved.empty()) return configured;
  std::vector<scheduler::Queue> queues = std::move(configured);
  if (queues.empty()) queues.push_back({.name = "default", .parent = {}});
  const std::map<std::string, double> parts = PartsLeft(queues, reserved, cluster);
  double least = 1;
  for (const auto& [kind, part] : parts) least = std::min(least, part);
  for (scheduler::Queue& queue : queues) {
    Shrink(queue.deserved, parts, least);
    if (queue.lends) Shrink(*queue.lends, parts, least);
  }
  for (const ReservedDevices& reservation : reserved) {
    if (scheduler::DevicesOf(cluster, reservation.kind) == 0) continue;
    queues.push_back({.name = reservation.queue,
                      .parent = {},
                      .deserved = {{reservation.kind, Milli(reservation.count)}},
                      .borrows = false,
                      .lends = scheduler::DeviceQuota{{reservation.kind, 0}}});
  }
  return queues;
}

}  // namespace gateway::control
