#include "gateway/cli/recorded_read.h"

#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "gateway/audit/stored_events.h"
#include "gateway/config/state_files.h"
#include "gateway/log.h"
#include "gateway/net/loop.h"
#include "gateway/process/open_state.h"

namespace gateway::cli {

absl::Status RecordRead(const Config& config, ledger::Event event) {
  std::error_code error;
  if (!config.state && !std::filesystem::exists(StorePath(config.server.state_dir), error))
    return absl::OkStatus();
  net::Loop loop([](const std::exception_ptr& thrown) { log::Exception("audit", thrown); });
  absl::Status status;
  if (auto store = OpenState(loop, config); store.ok()) {
    std::vector<store::Write> writes;
    writes.push_back(StoredEvent(std::move(event)));
    status = net::Await(loop, (*store)->Commit(std::move(writes))).status();
  } else {
    status = store.status();
  }
  loop.Stop();
  loop.Run();
  return status;
}

}  // namespace gateway::cli
