// Runs: the runs that a gateway asked Kubernetes for, compared with the pods that there are. Pure; no request
// is made here.
//
// A pod is a run of ours by its label and mark; its name is the run's id, so there is never a second one. A
// run ends when its container has, when its pod is over or gone, or when its node is lost for good. It stays
// known until it is forgotten, also when its pod is gone before.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conf/time.h"
#include "plugins/launchers/kubernetes/answers.h"
#include "plugins/launchers/kubernetes/manifest.h"
#include "plugins/launchers/launcher.h"
#include "plugins/launchers/port_range.h"

namespace plugins::launchers::kubernetes {

class Runs {
 public:
  struct Run {
    RunStatus status{};
    std::string uid{};  // empty: no pod was seen or created yet
    std::string node{};
    std::string unbound{};  // why it is not bound; empty: it is
    conf::TimePoint created{};
    bool host_network = false;
    bool waits_for_environment = false;  // its Secret, as far as can be seen
    bool fetches = false;                // weights, by an init container
    bool gone = false;                   // its pod is not there any more
    bool asked = false;                  // its creation is under way, or was not answered
    bool creating = false;               // its creation is under way
    bool equipped = true;                // its environment and its gang's names are there, or it has none
    bool told_to_stop = false;
    bool signalled = false;     // we deleted its pod with a long grace, so that it saves its work
    bool doomed = false;        // ended before its pod was known: the pod must be deleted when it appears
    uint64_t version = 0;       // of its pod, as last seen
    uint64_t stamp = 0;         // of its creation: a list that was asked for before need not name it
    uint64_t unanswered = 0;    // of a creation without an answer: a later list shows whether there is a pod
    std::string ended_by_us{};  // why we deleted it

    // Its start is not complete: it is to be asked for again.
    bool half_started() const {
      const bool begins = status.state == RunState::kStarting || status.state == RunState::kRunning;
      return begins && !told_to_stop && (asked || !equipped);
    }
  };

  explicit Runs(std::string gateway, PortRange ports) : gateway_(std::move(gateway)), ports_(ports) {}

  bool IsOurs(const Pod& pod) const { return !pod.gateway.empty() && pod.gateway == gateway_; }

  // Of one list: from before it is asked for until it is whole, each of its pods is given to Apply().
  struct Round {
    uint64_t stamp = 0;
    std::set<std::string> named{};
  };
  Round Begin() { return {++stamp_, {}}; }

  // These return the runs of which List() says something new, or whether that is so.
  bool Apply(const Pod& pod, conf::TimePoint now, Round* round = nullptr);
  std::vector<std::string> Listed(const Round& round, conf::TimePoint now);
  bool Deleted(const Pod& pod, conf::TimePoint now);

  const Run* Find(const std::string& id) const;
  const std::map<std::string, Run>& all() const { return runs_; }
  std::vector<RunStatus> List() const;

  // Before it is created. The port is free of our own runs on that address; 0 where none is.
  uint16_t PickPort(const std::string& id, const std::string& address) const;
  // `equipped`: it needs no other object than its pod.
  void Ask(const RunSpec& spec, const std::string& host, uint16_t port, bool host_network, bool equipped,
           conf::TimePoint now);
  // Before the creation of a run that was asked for is repeated.
  void AskAgain(const std::string& id);
  void Created(const std::string& id, const std::string& uid, bool equipped);
  // Kubernetes has refused to create the pod. After an earlier creation without an answer there may still be one, and
  // the run stays until a list shows it.
  void Refused(const std::string& id);
  void Unanswered(const std::string& id);
  // The pod with the run's name belongs to another user.
  void NotOurs(const std::string& id);
  // Its pod was deleted by us, to make it save its work.
  void Signalled(const std::string& id);
  void ToldToStop(const std::string& id, conf::TimePoint now);
  void Forget(const std::string& id);
  // Its environment is there now.
  void Equipped(const std::string& id);

  // Ends a run whose pod we delete, or that is on a node that is lost.
  void End(const std::string& id, std::string why, conf::TimePoint ended);

  // Whether something is on its way from one state to another, so that news of it is waited for.
  bool Moving() const;
  // Whether a creation got no answer: a list must show whether there is a pod.
  bool AnyUnanswered() const;

  // Pods of ours that hold devices though their run is forgotten or ended.
  const std::map<std::string, Pod>& leftovers() const { return leftovers_; }

 private:
  bool Update(Run& run, const Pod& pod, conf::TimePoint now);

  const std::string gateway_;
  const PortRange ports_;
  std::map<std::string, Run> runs_;
  uint64_t stamp_ = 0;
  std::set<std::string> forgotten_;  // uids of pods that are still there
  std::map<std::string, Pod> leftovers_;
};

// Why a pod does not start, or has ended, as a sentence without its end; empty where nothing is wrong.
std::string WhyWaiting(const Pod& pod);
std::string WhyEnded(const Pod& pod, bool told_to_stop);

}  // namespace plugins::launchers::kubernetes
