// Fleet: the replicas that Tidegate runs, in the order in which they came to be wanted.
//
// Changes state and nothing else: what a state asks for is the loop's to do. One thread. A Replica's address
// is good until it is removed.
#pragma once

#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/control/replica.h"
#include "scheduler/autoscale/autoscaler.h"

namespace gateway::control {

class Fleet {
 public:
  // A new one that waits for a place.
  Replica& Add(std::string_view model, std::string why, conf::TimePoint now);
  // One that a process before this one has started.
  Replica& Adopt(std::string run, std::string model, plugins::launchers::Grant grant, conf::TimePoint since,
                 conf::TimePoint now);
  void Remove(uint32_t id);

  Replica* Find(uint32_t id);
  Replica* FindRun(std::string_view run);
  std::list<Replica>& all() { return replicas_; }
  const std::list<Replica>& all() const { return replicas_; }

  void Enter(Replica& replica, State state, std::string why, conf::TimePoint now);

  // As the autoscaler counts them: those that stop are none any more, nor are those that are set aside.
  std::vector<scheduler::autoscale::ReplicaView> Views(std::string_view model) const;
  uint32_t Count(std::string_view model, State state) const;

 private:
  std::list<Replica> replicas_;
  uint32_t last_id_ = 0;
  int64_t last_stamp_ = 0;
};

// Of a run's id that is a replica's: others belong to jobs.
bool IsReplicaRun(std::string_view run);

}  // namespace gateway::control
