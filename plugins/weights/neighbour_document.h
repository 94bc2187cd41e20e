// The document by which a node's store describes its weights to neighbours, and its paths (neighbour_server.h):
//
//   GET /v1/weights/HEX           the document: JSON with the listing or, of an OCI artifact, the manifest; and the
//                                 bytes of each file by its SHA-256
//   GET /v1/weights/HEX/SHA256    a file of these weights, also in part (Range)
//
// The reader trusts only the digest that it was given: the listing or manifest must have it, and contains the hash of
// each file. Sizes are not covered by a listing's digest, and are estimates. Pure.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "plugins/weights/file_plan.h"
#include "plugins/weights/order.h"

namespace plugins::weights {

inline constexpr std::string_view kNeighbourRoot = "/v1/weights/";

// The path of weights or, with `sha256`, of one of their files.
std::string NeighbourPath(std::string_view hex, std::string_view sha256 = {});

struct NeighbourDocument {
  std::string listing{};
  std::string manifest{};  // of an OCI artifact; else empty
  std::map<std::string, uint64_t> bytes{};
};
std::string WriteDocument(const NeighbourDocument& document);

// The plan for weights of that digest ("sha256:HEX"), without places of the files. A single file gets the name that
// the source gives it. DataLoss: the document is of other weights; FailedPrecondition: it is no such document;
// `where` begins the message.
absl::StatusOr<FilePlan> PlanOfDocument(std::string_view text, std::string_view digest, const Source& source,
                                        const std::string& where);

}  // namespace plugins::weights
