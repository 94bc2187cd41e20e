#include "plugins/weights/neighbour_document.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/listing.h"

namespace plugins::weights {
namespace {

using nlohmann::json;

absl::StatusOr<FilePlan> PlanOfListing(const NeighbourDocument& document, std::string_view hex,
                                       const Source& source, const std::string& where) {
  absl::StatusOr<std::vector<ListedFile>> files = ReadListing(document.listing, where);
  if (!files.ok()) return files.status();
  FilePlan plan;
  const std::string of_listing = Sha256Hex(WriteListing(*files));
  if (of_listing != hex) {
    const std::string name = NameOfOneFile(source);
    if (files->size() != 1 || files->front().sha256 != hex || name.empty()) {
      return absl::DataLossError(fmt::format(
          "{} lists files whose digest is sha256:{}, and should be sha256:{}", where, of_listing, hex));
    }
    plan.digest = DigestOf::kFile;
    files->front().path = name;
  }
  for (ListedFile& file : *files) {
    PlannedFile& planned = plan.files.emplace_back();
    planned.path = std::move(file.path);
    planned.sha256 = std::move(file.sha256);
    if (const auto bytes = document.bytes.find(planned.sha256); bytes != document.bytes.end())
      planned.size = bytes->second;
  }
  return plan;
}

}  // namespace

std::string NeighbourPath(std::string_view hex, std::string_view sha256) {
  return fmt::format("{}{}{}{}", kNeighbourRoot, hex, sha256.empty() ? "" : "/", sha256);
}

std::string WriteDocument(const NeighbourDocument& document) {
  json out = {{"bytes", document.bytes}};
  if (document.manifest.empty()) {
    out["listing"] = document.listing;
  } else {
    out["manifest"] = document.manifest;
  }
  return conf::DumpJson(out);
}

absl::StatusOr<FilePlan> PlanOfDocument(std::string_view text, std::string_view digest, const Source& source,
                                        const std::string& where) {
  const json in = conf::ParseJson(text);
  NeighbourDocument document;
  try {
    document.bytes = in.at("bytes").get<std::map<std::string, uint64_t>>();
    document.listing = in.value("listing", std::string());
    document.manifest = in.value("manifest", std::string());
  } catch (const json::exception&) {
    return absl::FailedPreconditionError(
        fmt::format("{}: the answer is not that of tidegate weights serve", where));
  }
  const std::string hex = HexOfDigest(digest).value_or(std::string());
  if (document.manifest.empty()) return PlanOfListing(document, hex, source, where);
  if (const std::string got = Sha256Hex(document.manifest); got != hex) {
    return absl::DataLossError(
        fmt::format("{}: the digest of its manifest is sha256:{}, and should be {}", where, got, digest));
  }
  return FilesOfManifest(std::move(document.manifest), {}, where);
}

}  // namespace plugins::weights
