// Shadow traffic: a share of a model's requests is copied to another model, or to endpoints of a track of its
// own. The copy's answer is compared with the request's and dropped: counted, and written to the routing log.
//
// A copy is nobody's request: no limit admits it, nobody pays for it, and it has no row in the ledger. It is
// sent once the request is on its way, and takes load where it goes like any other work. How many are under
// way, and how large requests and answers may be, is bounded; what does not fit is not copied.
//
// Owner and thread: the shard.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gateway/config/routing.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/task.h"
#include "gateway/routing/record.h"
#include "router/pick.h"

namespace gateway {

struct Exchange;
struct ModelCells;
class Shard;

namespace routing {

// The two answers; whoever comes last compares.
class Shadow {
 public:
  Shadow(const Exchange& x, const config::Shadow& config);

  // What goes to the client.
  void Keep(std::string_view piece) { answer_.Add(piece, most_); }
  void RequestEnded(const Exchange& x, const Outcome& outcome);

 private:
  friend class Shadows;

  // A body's first bytes.
  struct Kept {
    std::string text;
    bool whole = true;
    void Add(std::string_view piece, uint64_t most);
  };

  void CopyEnded();
  void Compare();

  Shard& shard_;
  ModelCells& cells_;  // of the request's model
  const uint64_t most_;
  const bool stream_;
  ShadowedRequest result_;
  Kept answer_;
  Kept copy_;
  bool answer_whole_ = false;
  bool request_ended_ = false;
  bool copy_ended_ = false;
};

class Shadows {
 public:
  explicit Shadows(Shard& shard) : shard_(shard) {}

  // The copy of a request that is about to be sent, to one of those that want copies; null where none is
  // made. `facts` are the request's.
  std::shared_ptr<Shadow> Start(const Exchange& x, std::span<const config::Shadow> shadows,
                                const router::PickFacts& facts, conf::TimePoint now);
  // Those under way end, and those that begin do so at once.
  void Stop() { under_way_.Abort(); }

 private:
  struct Copy;

  bool Prepare(const Exchange& x, const config::Shadow& config, const router::PickFacts& facts,
               conf::TimePoint now, Copy& copy);
  net::Task<void> Send(std::shared_ptr<Copy> copy);
  net::Task<void> Carry(Copy& copy, net::AbortGroup::Member& member);

  Shard& shard_;
  net::AbortGroup under_way_;
};

}  // namespace routing
}  // namespace gateway
