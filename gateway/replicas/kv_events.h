// KvEvents: follows the engines that publish what their KV caches hold, on the control loop, never on a
// request's path. What they say goes to router::prefix::Holdings, and from there to the prefix index.
//
// For prompts that came as text it asks the replica that computed them for their tokens (`/tokenize`), a
// bounded number at a time; shards drop prompts when that does not keep up. A replica whose tokenizer fails
// is left alone for a while, one that has none for longer; one whose events cannot be heard is predicted
// again, as replicas without events are.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"
#include "gateway/replicas/computed_prompts.h"
#include "gateway/runtime.h"
#include "plugins/kv_events/subscriber.h"
#include "router/prefix/holdings.h"

namespace gateway {

enum class Tokenized : uint8_t { kLearnt, kFailed, kSkipped };
inline constexpr size_t kTokenizedWays = 3;
std::string_view Name(Tokenized how);

struct KvEventsStatus {
  struct Replica {
    std::string_view identity;
    std::string_view state;  // connecting, catching_up, exact
    plugins::kv_events::Subscriber::Counts counts;
    uint64_t stored = 0;  // blocks
    uint64_t removed = 0;
    uint64_t cleared = 0;  // times, by the engine's own word
    size_t blocks = 0;     // held by what is known
    conf::Duration lag{};  // of the last batch, by both machines' clocks
  };
  std::vector<Replica> replicas;  // by identity
  router::prefix::HoldingsStats holdings;
  std::array<uint64_t, kTokenizedWays> tokenized{};  // prompts, by how it went
};

class KvEvents {
 public:
  KvEvents(net::Loop& loop, router::prefix::Index& index, ComputedPrompts& computed);
  ~KvEvents();

  void Start(std::shared_ptr<const Runtime> runtime);
  void Stop();  // for good
  void OnComputed();

  KvEventsStatus status() const;

 private:
  class Followed;

  std::unique_ptr<Followed> Follow(const Runtime& runtime, const router::Replica& replica);
  Followed* Find(router::prefix::MemberId member);
  void LearnIds(const Followed& replica, const ComputedPrompt& prompt);
  net::Task<void> Tokenize(std::shared_ptr<const Runtime> runtime, ComputedPrompt prompt);

  net::Loop& loop_;
  router::prefix::Index& index_;
  ComputedPrompts& computed_;
  router::prefix::Holdings holdings_;
  std::unique_ptr<net::ZmqContext> context_;  // from the first replica that is followed on
  std::map<std::string, std::unique_ptr<Followed>, std::less<>> followed_;  // by identity
  std::shared_ptr<const Runtime> runtime_;
  std::array<uint64_t, kTokenizedWays> tokenized_{};
  uint32_t under_way_ = 0;
  net::AbortGroup fetches_;
};

}  // namespace gateway
