// Members whose node falls silent or whose device is lost, and what that makes of their jobs.
#include <fmt/format.h>

#include "gateway/control/jobs/jobs.h"

namespace gateway::control {
namespace {

constexpr conf::Duration kLate = std::chrono::seconds(2);  // to end, once told

}  // namespace

void Jobs::Lose(const plugins::launchers::DeviceFault& fault) {
  const scheduler::Cluster& cluster = *around_.cluster;
  for (Job& job : jobs_) {
    if (job.state != JobState::kStarting && job.state != JobState::kRunning) continue;
    for (size_t rank = 0; rank < job.members.size(); ++rank) {
      const scheduler::Holding& holding = job.members[rank].at.holding;
      if (holding.node >= cluster.nodes.size() || cluster.nodes[holding.node].name != fault.node) continue;
      if ((holding.devices >> fault.device & 1) == 0) continue;
      job.blameless = true;
      End(job, Afterwards::kRetries,
          fmt::format("member {} has lost device {} of {}: {}", rank, fault.device, fault.node, fault.why));
      break;
    }
  }
}

std::string Jobs::NodeOf(const JobMember& member) const {
  const scheduler::NodeId node = member.at.holding.node;
  return node < around_.cluster->nodes.size() ? around_.cluster->nodes[node].name : std::string();
}

bool Jobs::IsLate(const Job& job, const JobMember& member) const {
  const bool ends = job.state == JobState::kSaving || job.state == JobState::kStopping;
  return ends && member.told && !member.ended && around_.now() - job.since >= kLate;
}

std::vector<std::string> Jobs::LateNodes() const {
  std::vector<std::string> nodes;
  for (const Job& job : jobs_) {
    for (const JobMember& member : job.members) {
      if (IsLate(job, member)) nodes.push_back(NodeOf(member));
    }
  }
  return nodes;
}

// A member that is told to end on a node that does not answer ends when its manager gives the node up; what
// the others held is not to wait for that. Nothing new is placed there, and the manager keeps its devices
// for it.
bool Jobs::IsGivenUp(const Job& job, const JobMember& member) const {
  return IsLate(job, member) && around_.untrusted(NodeOf(member));
}

}  // namespace gateway::control
