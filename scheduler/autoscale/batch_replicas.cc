#include "scheduler/autoscale/batch_replicas.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/shown.h"

namespace scheduler::autoscale {
namespace {

constexpr conf::Duration kLongWait = std::chrono::seconds(10);
constexpr conf::Duration kQuiet = std::chrono::minutes(1);

}  // namespace

uint32_t BatchReplicas::Keep(const BatchStarts& policy, const Seen& seen, uint32_t let_go) {
  if (!policy.may_start || seen.oldest_wait < kLongWait) return 0;
  return std::min(let_go, policy.max_replicas - std::min(policy.max_replicas, seen.there));
}

uint32_t BatchReplicas::Give(const Seen& seen, uint32_t wanted) {
  return std::min(wanted, seen.there - std::min(seen.there, seen.coming));
}

BatchReplicas::Decision BatchReplicas::Tick(const BatchStarts& policy, const Seen& seen,
                                            conf::TimePoint now) {
  if (seen.lines > 0) last_line_ = now;
  if (seen.there > 0 && (!policy.may_start || now - last_line_ >= kQuiet)) {
    return {.end = true,
            .why = policy.may_start ? fmt::format("no line of a batch was waiting or running for {}",
                                                  conf::InWords(kQuiet))
                                    : "its policy starts no replicas for batches"};
  }
  if (!policy.may_start || seen.coming > 0 || seen.there >= policy.max_replicas ||
      seen.oldest_wait < kLongWait)
    return {};
  return {.start = true,
          .why = fmt::format("{} of batches to run, of which one has waited {}; {} of at most {} for batches",
                             conf::Counted(static_cast<uint32_t>(seen.lines), "line"),
                             conf::InWords(seen.oldest_wait), seen.there + 1,
                             conf::Counted(policy.max_replicas, "replica"))};
}

}  // namespace scheduler::autoscale
