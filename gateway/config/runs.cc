#include "gateway/config/runs.h"

#include <fmt/format.h>

#include "conf/reader.h"

namespace gateway::config {

void Bind(conf::Object& o, Runs& runs) {
  o.Optional("user", runs.user, conf::NotEmpty());
  o.Optional("same_user", runs.same_user);
  o.Optional("processes", runs.processes, conf::Range{16U, 4'194'304U});
  o.Optional("open_files", runs.open_files, conf::Range{64U, 1'048'576U});
  o.Optional("file_gib", runs.file_gib, conf::Range{1U, 1'000'000U});
  o.Optional("log_mib", runs.log_mib, conf::Range{1U, 65'536U});
  o.Optional("logs_mib", runs.logs_mib, conf::Range{2U, 67'108'864U});
  o.Optional("logs_dir", runs.logs_dir, conf::NotEmpty());
  if (runs.logs_mib && *runs.logs_mib < 2 * runs.log_mib) {
    o.Error(fmt::format("logs_mib: {} is less than one run may keep, twice log_mib; give at least {}",
                        *runs.logs_mib, 2 * runs.log_mib),
            "logs_mib");
  }
}

}  // namespace gateway::config
