// FilePlan: the files that a source has for a model, found before the first of them is fetched.
//
// Each function asks one kind of source. Errors are for people: they name the place, and what is wrong there.
// Thread: the loop's of `web`; PlanPath blocks.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/weights/order.h"
#include "plugins/weights/web.h"

namespace plugins::weights {

struct PlannedFile {
  std::string path{};    // in the model's folder
  std::string from{};    // a URL, or a file of this machine
  std::string sha256{};  // hex; empty: known once it is here
  std::optional<uint64_t> size{};
};

// How the digest of the order is compared.
enum class DigestOf : uint8_t {
  kListing,   // of all files
  kFile,      // of the one file
  kManifest,  // it was, when the plan was made: each file has a digest of its own
};

struct FilePlan {
  std::vector<PlannedFile> files{};
  DigestOf digest = DigestOf::kListing;
  std::shared_ptr<Credentials> credentials{};  // may be null
  std::string manifest{};                      // kManifest: its text, which has the digest
};

// The files of an OCI manifest; `base` begins the URLs of their blobs, `where` messages.
absl::StatusOr<FilePlan> FilesOfManifest(std::string text, const std::string& base, const std::string& where);

gateway::net::Task<absl::StatusOr<FilePlan>> PlanHttp(Web& web, HttpSource source, std::string digest);
gateway::net::Task<absl::StatusOr<FilePlan>> PlanHuggingFace(Web& web, HuggingFaceSource source);
gateway::net::Task<absl::StatusOr<FilePlan>> PlanOci(Web& web, OciSource source, std::string digest);
gateway::net::Task<absl::StatusOr<FilePlan>> PlanS3(Web& web, S3Source source, std::string digest);
absl::StatusOr<FilePlan> PlanPath(const PathSource& source);

// Plans the files of any source.
gateway::net::Task<absl::StatusOr<FilePlan>> PlanFiles(Web& web, const WeightsOrder& order);

// Checks what all plans must fulfil: at least one file, safe paths, each once, none that is another's folder.
absl::StatusOr<FilePlan> Checked(FilePlan plan, const std::string& from);

}  // namespace plugins::weights
