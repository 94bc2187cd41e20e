#include <array>

#include "bench/scheduling/section.h"

namespace bench::scheduling {

std::span<const Section> Sections() {
  static constexpr std::array<Section, 6> kSections = {{
      {"openb", "allocation of Alibaba's 6,212 GPUs as load arrives, nine lists, every policy", RunOpenb},
      {"speed", "decisions a second on 10,000 nodes of eight devices, and what they cost", RunSpeed},
      {"philly", "Philly's 82,247 jobs on 56 and 72 nodes, every way of overtaking and placing", RunPhilly},
      {"gangs", "gangs of 256 to 2,048 GPUs on 2,048 nodes: how near they stand, how long they wait",
       RunGangs},
      {"fair-share", "a day and a week of four queues: deserved, reclaim, Jain's index", RunFairShare},
      {"preemption", "GPU time lost to bursts, by the order in which victims are chosen", RunPreemption},
  }};
  return kSections;
}

}  // namespace bench::scheduling
