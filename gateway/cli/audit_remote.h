// `tidegate audit` against a gateway that one is signed in to: the same output as beside the ledger, page by page
// from the admin API.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/audit/ledger_query.h"
#include "gateway/cli/admin_client.h"

namespace gateway::cli {

struct RemoteAudit {
  AdminOptions admin;
  AuditRequest request;
  std::string format;  // jsonl, csv
  std::string out;     // a file; empty or "-": standard output
  uint64_t from_seq = 0;
  uint64_t last = 10;
  bool follow = false;
  bool open_content = false;
  bool json = false;
};

// Each returns the exit code.
int ExportThere(const RemoteAudit& options);
int TailThere(const RemoteAudit& options);
// Has the gateway verify its ledger, and waits for the result.
int VerifyThere(const RemoteAudit& options);

// The records of an answer of /admin/v1/audit, each as it stands there, byte for byte. Views into `body`; nothing
// where it has no list.
std::vector<std::string_view> RecordsIn(std::string_view body);

}  // namespace gateway::cli
