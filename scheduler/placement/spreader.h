// Chooses nodes one after the other, by the policy's scores, for the members of a job that are to be apart from each
// other. With `spread`, members are spread over the values of a label, if one is named, then over leaves, then over
// nodes; with `apart`, each member has another node. Also used where the policy itself spreads.
//
// The choice is the same as if every node were scored for every member. To save time, the best node of each leaf group
// (the nodes of one lowest domain and one value of the label) is remembered, and computed again only after a member was
// placed there. Must not outlive the state; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "scheduler/placement/placer.h"
#include "scheduler/state/cluster_state.h"

namespace scheduler {

class Spreader {
 public:
  explicit Spreader(const ClusterState& state);

  struct Query {
    JobIndex job = 0;
    ShapeId shape = 0;
    DomainId under = kNone;                      // kNone: anywhere
    const NodeSet* except = nullptr;             // may be null
    const std::set<JobIndex>* beside = nullptr;  // whose members count as its own for `spread`; may be null
    bool apart = false;
    bool spread = false;
    std::string_view over{};  // as Job::spread_over
  };
  // Reads all nodes once. `query.except` must stay as it is until the next Start.
  void Start(Placer& placer, const Query& query, Rng& rng);

  // The holding of the next member; absent: it fits nowhere. The caller assigns it to the job before the next call.
  std::optional<Holding> Next(Placer& placer);

 private:
  // Greater is better.
  struct Rank {
    int64_t zone = 0;   // members of the job with that value of the label, negative
    int64_t crowd = 0;  // members of the job, negative
    Placer::Suitability suits;
    int64_t leaf = 0;  // by the policy's tie-break
    uint64_t lot = 0;
    auto operator<=>(const Rank&) const = default;
  };
  struct Group {
    DomainId domain = 0;
    uint32_t zone = 0;
    NodeId best = kNone;  // none has room
    Rank rank;            // of the best, but for what the whole group shares
  };

  void FindZones();
  void FindGroups(DomainId domain);
  void Refresh(Placer& placer, Group& group);

  const ClusterState* state_;
  Query query_;
  uint64_t draw_ = 0;
  size_t last_ = SIZE_MAX;  // the group of the last holding
  NodeId last_node_ = kNone;
  std::vector<Group> groups_;
  std::vector<uint32_t> on_node_;         // members of the job
  std::vector<uint32_t> beside_on_node_;  // of those beside it
  std::vector<uint32_t> on_leaf_;         // of both
  std::vector<uint32_t> zone_of_;         // by node, where the spread is over a label; else empty
  std::vector<uint32_t> on_zone_;         // of both
  std::vector<uint8_t> closed_;           // nodes that power keeps from taking more
};

}  // namespace scheduler
