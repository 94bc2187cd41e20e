#include "gateway/config/watch.h"

#include <cmath>
#include <string>

#include "conf/reader.h"

namespace gateway::config {
namespace {

// Halves of a pool differ by as much without anything being wrong.
struct ZeroOrTwoAtLeast {
  std::string operator()(double v) const {
    return v == 0 || (std::isfinite(v) && v >= 2) ? "" : "must be at least 2, or 0 for never";
  }
};

}  // namespace

void Bind(conf::Object& o, Watch& watch) {
  o.Optional("hung_after", watch.hung_after);
  o.Optional("slow_factor", watch.slow_factor, ZeroOrTwoAtLeast());
  o.Optional("slow_for", watch.slow_for, conf::Positive());
  o.Optional("eject", watch.eject, conf::Positive());
  o.Optional("max_eject", watch.max_eject, conf::Positive());
  o.Optional("slow_start", watch.slow_start);
  if (watch.eject > watch.max_eject) o.Error("must not be longer than max_eject", "eject");
}

}  // namespace gateway::config
