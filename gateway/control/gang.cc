#include "gateway/control/gang.h"

#include <string>
#include <utility>

#include "gateway/control/context.h"

namespace gateway::control {
namespace {

// Below what systems give to outgoing connections, and apart from the replicas' default.
constexpr uint16_t kFirstPort = 30'000;
constexpr uint16_t kPorts = 2'000;

// FNV-1a: the same in every process.
uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

uint16_t MeetingPort(std::string_view workload, uint32_t attempt) {
  return static_cast<uint16_t>(kFirstPort + (HashOf(workload) + attempt) % kPorts);
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
