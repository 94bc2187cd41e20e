#include "gateway/config/never_fits.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scheduler/cycle/explain.h"
#include "scheduler/placement/empty_cluster.h"
#include "scheduler/queues/empty_queues.h"

namespace gateway::config {
namespace {

using scheduler::Ask;
using scheduler::DeviceAsk;

// The greatest number from 0 to `most` for which `holds` is true; it is true up to one number, and then
// false.
template <class Holds>
uint32_t MostThat(uint32_t most, const Holds& holds) {
  uint32_t fits = 0;
  while (fits < most) {
    const uint32_t half = fits + (most - fits + 1) / 2;
    if (holds(half)) {
      fits = half;
    } else {
      most = half - 1;
    }
  }
  return fits;
}

// Of a job of which not even one member fits.
NeverFits NoMember(scheduler::EmptyCluster& empty, scheduler::Job job) {
  scheduler::Role& role = job.roles.front();
  role.count = role.min_count = 1;
  job.topology = {};
  const Ask asked = role.ask;
  const std::string each = scheduler::InWords(asked);
  const auto holds = [&](Ask ask) {
    role.ask = std::move(ask);
    return empty.Holds(job);
  };
  if (holds(asked))
    return {"/topology", "",
            fmt::format("no place of that level holds a member with {}; remove topology", each)};
  if (!asked.require.empty() || !asked.avoid.empty()) {
    Ask anywhere = asked;
    anywhere.require.clear();
    anywhere.avoid.clear();
    if (holds(std::move(anywhere))) {
      return {
          asked.require.empty() ? "/avoid" : "/require", "",
          fmt::format(
              "no node that its labels allow holds a member with {}, others do; allow other values of the "
              "labels, or ask for less",
              each)};
    }
  }
  const uint32_t count = asked.devices.empty() ? 0 : asked.devices.front().count;
  const uint32_t most = MostThat(count, [&](uint32_t devices) {
    Ask less = asked;
    for (DeviceAsk& device : less.devices)
      device.count = std::min<uint16_t>(device.count, static_cast<uint16_t>(devices));
    return holds(std::move(less));
  });
  if (most > 0) {
    return {
        "/devices", std::to_string(count),
        fmt::format("no node of the cluster holds a member with {}; ask for at most {} a member, or spread "
                    "them over more members",
                    each, most)};
  }
  Ask devices_only = asked;
  devices_only.cpu_milli = devices_only.memory_mib = 0;
  if ((asked.cpu_milli > 0 || asked.memory_mib > 0) && holds(devices_only)) {
    Ask no_cpu = asked;
    no_cpu.cpu_milli = 0;
    const bool by_cpu = holds(no_cpu);
    return {by_cpu ? "/cpu" : "/memory", "",
            fmt::format("no node of the cluster holds a member with {}; ask for less {}", each,
                        by_cpu ? "cpu" : "memory")};
  }
  return {"/devices", "", fmt::format("no node of the cluster holds a member with {}; ask for less", each)};
}

}  // namespace

std::optional<NeverFits> FindNeverFits(const scheduler::Cluster& cluster,
                                       const std::vector<scheduler::Queue>& queues, scheduler::Job job) {
  if (cluster.nodes.empty()) return std::nullopt;
  if (const std::string refused = scheduler::EmptyQueues(cluster, queues).WhyRefused(job); !refused.empty())
    return NeverFits{"/queue", job.queue, refused + "; ask for less, or choose another queue"};
  for (const scheduler::ResourceAsk& ask : job.resources) {
    const auto known = std::ranges::find(cluster.resources, ask.name, &scheduler::Resource::name);
    const uint32_t has = known == cluster.resources.end() ? 0 : known->count;
    if (ask.count > has) {
      return NeverFits{
          "/resources/" + ask.name, std::to_string(ask.count),
          fmt::format("the cluster has {} of the resource {}; ask for at most as many", has, ask.name)};
    }
  }
  scheduler::EmptyCluster empty(cluster);
  if (empty.Holds(job)) return std::nullopt;
  scheduler::Role& role = job.roles.front();
  const uint32_t wanted = role.min_count;
  const uint32_t most = MostThat(wanted, [&](uint32_t members) {
    role.count = role.min_count = members;
    return empty.Holds(job);
  });
  if (most == 0) return NoMember(empty, std::move(job));
  return NeverFits{
      "/members", std::to_string(wanted),
      fmt::format("{} members with {} each do not fit {}, even if nothing else ran; at most {} {}", wanted,
                  scheduler::InWords(role.ask),
                  job.topology.required ? fmt::format("in one {}", job.topology.level) : "in the cluster",
                  most, most == 1 ? "does" : "do")};
}

}  // namespace gateway::config
