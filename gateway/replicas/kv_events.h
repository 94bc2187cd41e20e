// KvEvents: follows the engines that publish the contents of their KV caches, on the control loop, outside
// the request path. Their events go to router::prefix::KvResidency, and from there to the prefix index.
//
// A prompt that came as text is sent to the tokenizer of the replica that computed it (`/tokenize`), a
// bounded number at a time; shards drop prompts while this falls behind. A replica with a failing tokenizer
// is not asked for a while, one without a tokenizer for longer. While events of a replica cannot be received,
// its cache is predicted, as for replicas without events.
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
#include "gateway/shard/computed_prompts.h"
#include "gateway/shard/runtime.h"
#include "plugins/kv_events/subscriber.h"
#include "router/prefix/kv_residency.h"

namespace gateway {

enum class Tokenized : uint8_t { kLearnt, kFailed, kSkipped };
inline constexpr size_t kTokenizedWays = 3;
std::string_view Name(Tokenized how);

struct KvEventsStatus {
  struct Followed {
    std::string_view identity;
    std::string_view state;  // connecting, catching_up, exact
    plugins::kv_events::Subscriber::Counts counts;
    uint64_t stored = 0;  // blocks
    uint64_t removed = 0;
    uint64_t cleared = 0;  // times that the engine cleared its cache
    size_t blocks = 0;     // in its cache, by the events
    conf::Duration lag{};  // of the last batch; compares two machines' clocks
  };
  std::vector<Followed> replicas;  // by identity
  router::prefix::KvResidencyStats residency;
  std::array<uint64_t, kTokenizedWays> tokenized{};  // prompts, by result
};

class KvEvents {
 public:
  KvEvents(net::Loop& loop, router::prefix::Index& index, ComputedPrompts& computed);
  ~KvEvents();

  void Start(std::shared_ptr<const Runtime> runtime);
  void Stop();  // for ever
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
  router::prefix::KvResidency residency_;
  std::unique_ptr<net::ZmqContext> context_;  // made for the first replica with events
  std::map<std::string, std::unique_ptr<Followed>, std::less<>> followed_;  // by identity
  std::shared_ptr<const Runtime> runtime_;
  std::array<uint64_t, kTokenizedWays> tokenized_{};
  uint32_t under_way_ = 0;
  net::AbortGroup fetches_;
};

}  // namespace gateway
