// NodeWatch: recognizes nodes that cannot be trusted before the cluster's own manager gives them up; the manager needs
// from half a minute to some minutes for that.
//
// A node is suspect when its daemon accepts no connection, twice, while another node's daemon does. Where the daemon
// cannot be asked, a node is suspect when at least two replicas run there and all stopped answering at once. So these
// say nothing against a node: a single replica that hangs, a command that fails repeatedly, a network in which no node
// is reached. At most half of the nodes are suspect at a time, so a single node never is. A suspect is trusted again
// when it answers, but not before a delay that doubles each time, so that an unstable node is avoided longer and
// longer.
//
// Pure value: reports and times come in. Times must not go back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conf/time.h"
#include "plugins/launchers/launcher.h"

namespace gateway::control {

class NodeWatch {
 public:
  static constexpr conf::Duration kFresh = std::chrono::seconds(5);  // an answer that a launch may rely on
  static constexpr conf::Duration kConfirm = std::chrono::milliseconds(300);  // between two silences
  static constexpr conf::Duration kCompare = std::chrono::seconds(30);        // with another node's answer
  static constexpr conf::Duration kMute =
      std::chrono::seconds(2);  // all replicas, where nothing can be asked
  static constexpr conf::Duration kFirst = std::chrono::seconds(10);  // minimal time of suspicion, doubling
  static constexpr conf::Duration kLongest = std::chrono::minutes(10);
  static constexpr conf::Duration kForgiven =
      std::chrono::minutes(30);  // trusted so long: as if never suspect
  static constexpr conf::Duration kAskAgain = std::chrono::seconds(3);  // a suspect; its longest silence
  static constexpr conf::Duration kAskRuns =
      std::chrono::seconds(15);  // a node with a replica that is mute or late

  // The manager's report of its nodes; nodes that are missing in it are forgotten.
  void Update(const std::vector<plugins::launchers::SharedNode>& nodes, conf::TimePoint now);

  // Reports. Those about unknown nodes are ignored.
  void Answered(const std::string& node, conf::TimePoint now);
  void Silent(const std::string& node, std::string why, conf::TimePoint now);
  void CannotBeAsked(const std::string& node);
  // How many replicas on the node should answer, how many of them do not, and how many start late.
  struct Runs {
    uint32_t serving = 0;
    uint32_t mute = 0;
    uint32_t late = 0;
  };
  void Replicas(const std::string& node, Runs runs, conf::TimePoint now);

  // Evaluates the reports. Call it after all reports of one moment.
  void Evaluate(conf::TimePoint now);

  // The nodes to probe now. Report each result before the next call, or keep the node out of it until then.
  std::vector<std::string> Due(conf::TimePoint now) const;
  // Before a launch: the last answer is not recent, and the node can be probed.
  bool ShouldAsk(const std::string& node, conf::TimePoint now) const;
  // The node to probe for comparison, without which silence proves nothing; empty: there is none, or a node has
  // answered lately.
  std::string ToCompare(const std::string& node, conf::TimePoint now) const;
  bool IsSilent(const std::string& node) const;  // at the last probe
  // The reason against a launch on the node: it is silent while another node answers. Empty: there is none.
  std::string WhyNoLaunch(const std::string& node, conf::TimePoint now) const;

  struct Doubt {
    conf::TimePoint since{};
    std::string why{};
    bool ours = false;  // suspected by us alone, not by the manager
    friend bool operator==(const Doubt&, const Doubt&) = default;
  };
  // Suspected by us or by the manager, or given up by the manager; nothing: the node is trusted.
  std::optional<Doubt> doubt(const std::string& node) const;
  // Which work the manager wants moved elsewhere, and why.
  struct Leave {
    plugins::launchers::Leaving who = plugins::launchers::Leaving::kAll;
    std::string why{};
    friend bool operator==(const Leave&, const Leave&) = default;
  };
  // Absent: all work may stay.
  std::optional<Leave> LeaveOf(const std::string& node) const;
  bool suspect(const std::string& node) const;         // by us
  std::set<std::string> suspects() const;              // by us
  uint64_t suspicions() const { return suspicions_; }  // since the start, by us

 private:
  struct Node {
    scheduler::Health said = scheduler::Health::kHealthy;
    std::string said_why{};
    plugins::launchers::Leaving leaving = plugins::launchers::Leaving::kNobody;
    conf::TimePoint said_since{};
    bool can_be_asked = true;
    std::optional<conf::TimePoint> asked{};
    std::optional<conf::TimePoint> answered{};
    std::optional<conf::TimePoint> silent{};        // since when
    std::optional<conf::TimePoint> still_silent{};  // the last time
    std::string silent_why{};
    Runs runs{};
    std::optional<conf::TimePoint> all_mute{};  // since when
    bool suspect = false;
    bool by_replicas = false;  // because of replicas, not by its own silence
    conf::TimePoint since{};   // when the suspicion began or ended
    conf::TimePoint until{};   // earliest end of the suspicion
    uint32_t times = 0;
    std::string why{};
  };

  const Node* Find(const std::string& node) const;
  Node* Get(const std::string& node);
  bool AnotherAnswers(const std::string& node, conf::TimePoint now) const;
  void Suspect(Node& node, std::string why, bool by_replicas, conf::TimePoint now);

  std::map<std::string, Node> nodes_;
  size_t suspects_ = 0;
  uint64_t suspicions_ = 0;
};

}  // namespace gateway::control
