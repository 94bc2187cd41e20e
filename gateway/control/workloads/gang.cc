#include "gateway/control/workloads/gang.h"

#include <string>
#include <utility>

#include "conf/hash.h"
#include "gateway/control/workloads/context.h"

namespace gateway::control {
namespace {

// Below the ports of outgoing connections, and apart from the default ports of replicas.
constexpr uint16_t kFirstPort = 30'000;
constexpr uint16_t kPorts = 2'000;

}  // namespace

uint16_t MeetingPort(std::string_view workload, uint32_t attempt) {
  return static_cast<uint16_t>(kFirstPort + (conf::Fnv1a(workload) + attempt) % kPorts);
}

plugins::launchers::Gang GangOf(const Workload& workload, uint32_t rank,
                                const plugins::launchers::Launcher& launcher,
                                const scheduler::Cluster& cluster) {
  const Member& leader = workload.members.front();
  return {.rank = rank,
          .size = static_cast<uint32_t>(workload.members.size()),
          .leader = launcher.AddressOf(leader.run, NodeOf(cluster, leader.at)),
          .leader_port = MeetingPort(workload.id, workload.attempt)};
}

void JoinGang(plugins::launchers::RunSpec& spec, plugins::launchers::Gang gang) {
  const auto tell = [&](const char* name, std::string value) {
    spec.env.emplace_back(name, std::move(value));
  };
  tell("RANK", std::to_string(gang.rank));
  tell("WORLD_SIZE", std::to_string(gang.size));
  tell("LOCAL_RANK", "0");  // a member sees no devices but its own
  tell("MASTER_ADDR", gang.leader);
  tell("MASTER_PORT", std::to_string(gang.leader_port));
  spec.gang = std::move(gang);
}

}  // namespace gateway::control
