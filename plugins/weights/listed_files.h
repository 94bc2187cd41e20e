// The files that a listing at their place names (listing.h). Thread: the loop's of `web`.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "plugins/weights/file_plan.h"

namespace plugins::weights {

struct ListedPlace {
  std::string url{};      // of the folder
  std::string listing{};  // below it
  std::string digest{};   // of the listing
  std::shared_ptr<Credentials> credentials{};
};

// Asks for the listing, compares it with the digest, and asks for the size of each file. DataLoss: another
// listing.
gateway::net::Task<absl::StatusOr<FilePlan>> PlanListed(Web& web, ListedPlace place);

}  // namespace plugins::weights
