// NodeWatch: which nodes are not to be trusted, before the cluster's own manager gives them up, which takes
// it half a minute to some minutes.
//
// A node is suspect when what starts runs there takes no connection, twice, while it does on another node;
// or, where that cannot be asked, when all of at least two replicas on it have stopped answering at once. So
// one replica that hangs and a command that ends again and again say nothing against their node, and nor does
// a network in which nobody is reached. At most half of the nodes are suspect at a time: the only one never
// is. It is trusted again when it answers, but not before a while that doubles each time, so that one that
// comes and goes is left alone longer and longer.
//
// Pure value: signs and times come in. Times must not go back.
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
  static constexpr conf::Duration kFirst = std::chrono::seconds(10);  // suspect at least so long, doubling
  static constexpr conf::Duration kLongest = std::chrono::minutes(10);
  static constexpr conf::Duration kForgiven =
      std::chrono::minutes(30);  // trusted so long: as if never suspect
  static constexpr conf::Duration kAskAgain = std::chrono::seconds(3);  // a suspect; its longest silence
  static constexpr conf::Duration kAskRuns =
      std::chrono::seconds(15);  // what has a replica that is mute or late

  // What the manager says of its nodes; those that it does not name any more are forgotten.
  void See(const std::vector<plugins::launchers::SharedNode>& nodes, conf::TimePoint now);

  // Signs. Of nodes that are not known they count for nothing.
  void Answered(const std::string& node, conf::TimePoint now);
  void Silent(const std::string& node, std::string why, conf::TimePoint now);
  void CannotBeAsked(const std::string& node);
  // How many replicas on it should answer, and of those how many do not; and how many take long to come.
  struct Runs {
    uint32_t serving = 0;
    uint32_t mute = 0;
    uint32_t late = 0;
  };
  void Replicas(const std::string& node, Runs runs, conf::TimePoint now);

  // What follows from them. After all of a moment's signs.
  void Judge(conf::TimePoint now);

  // Whom to ask now. What comes of it is told before the next call, or the node is left out of it until then.
  std::vector<std::string> Due(conf::TimePoint now) const;
  // Before a launch: there is no fresh answer, and it can be asked.
  bool ShouldAsk(const std::string& node, conf::TimePoint now) const;
  // Whom to ask beside it, so that its silence says something; empty: nobody, or one has answered lately.
  std::string ToCompare(const std::string& node, conf::TimePoint now) const;
  bool IsSilent(const std::string& node) const;  // when it was last asked
  // Silent just now, while another node answers; the reason. Empty: nothing is known against a launch there.
  std::string WhyNoLaunch(const std::string& node, conf::TimePoint now) const;

  struct Doubt {
    conf::TimePoint since{};
    std::string why{};
    bool ours = false;  // the manager says nothing against it
    friend bool operator==(const Doubt&, const Doubt&) = default;
  };
  // Suspect, by us or by the manager, or given up by it; nothing: it is trusted.
  std::optional<Doubt> doubt(const std::string& node) const;
  bool suspect(const std::string& node) const;         // by us
  std::set<std::string> suspects() const;              // by us
  uint64_t suspicions() const { return suspicions_; }  // that there have been, by us

 private:
  struct Node {
    scheduler::Health said = scheduler::Health::kHealthy;
    std::string said_why{};
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
    bool by_replicas = false;  // and not by its own silence
    conf::TimePoint since{};   // suspect, or trusted again
    conf::TimePoint until{};   // suspect at least
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
