#include "scheduler/autoscale/batch_replicas.h"

#include <fmt/format.h>

#include "conf/shown.h"

namespace scheduler::autoscale {
namespace {

constexpr conf::Duration kLongWait = std::chrono::seconds(10);
constexpr conf::Duration kQuiet = std::chrono::minutes(1);

}  // namespace

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
