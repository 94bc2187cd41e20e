// WeightsOrder: the input of the step before an engine: where a model's weights come from, which digest they
// must have, and in which store of the node they belong. It travels as JSON in one variable, which may hold
// secrets and which the step does not hand on.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace plugins::weights {

inline constexpr char kOrderVariable[] = "TIDEGATE_WEIGHTS";

// One file, or the files that a listing names (listing.h), all below one URL.
struct HttpSource {
  std::string url{};
  std::string listing{};  // its path below the URL; empty: the URL is the one file
  std::string token{};    // of a Bearer; may be empty
};

// A repository of Hugging Face's layout, at its hub or a mirror.
struct HuggingFaceSource {
  std::string url = "https://huggingface.co";
  std::string repository{};
  std::string revision{};
  std::string token{};
  std::vector<std::string> include{};  // globs over paths; empty: all files
};

// An artifact, whose digest is its manifest's; each layer is a file, named by an annotation.
struct OciSource {
  std::string registry{};  // a URL
  std::string repository{};
  std::string username{};
  std::string password{};
};

// Objects below a prefix, or those that a listing there names.
struct S3Source {
  std::string endpoint{};  // a URL; buckets are in the path
  std::string bucket{};
  std::string prefix{};
  std::string listing{};
  std::string region = "us-east-1";
  std::string access_key{};  // empty: requests are not signed
  std::string secret_key{};
  std::string session_token{};
};

// A file or folder of this machine, or of a file system that it has mounted.
struct PathSource {
  std::string path{};
};

using Source = std::variant<HttpSource, HuggingFaceSource, OciSource, S3Source, PathSource>;

// "https://huggingface.co/org/model at main": for people, without secrets.
std::string InWords(const Source& source);
// The name of its one file, where the source is a single file; empty: it need not be one.
std::string NameOfOneFile(const Source& source);

// More that is brought by the same step: a data set.
struct AlsoOrdered {
  std::string digest{};
  std::string name{};  // for people
  Source source{};
  std::vector<std::string> neighbours{};  // as in WeightsOrder
};

// How the stores of other nodes are asked (neighbour_server.h).
struct NeighbourAccess {
  std::string token{};
  std::string ca{};  // a file of authorities; empty: as for the source
};

struct WeightsOrder {
  std::string store{};              // a folder of the node
  uint64_t size = 0;                // the most that the store may hold; 0: only the disk limits it
  std::string digest{};             // "sha256:HEX"
  std::string model{};              // for people
  std::vector<std::string> pins{};  // digests that policies pin: they do not leave the store for others
  std::string ca{};                 // a file of authorities; empty: the system's
  uint32_t connections = 4;         // at a time
  std::string cache{};              // key of the engine's compile cache; empty: none
  Source source{};
  std::vector<std::string> neighbours{};  // URLs of stores that are asked before the source, in this order
  NeighbourAccess access{};
  std::vector<AlsoOrdered> also{};
};

// The folder that holds the weights of that digest, which need not be there yet.
std::string WeightsFolder(std::string_view store, std::string_view digest);
// The folder of a compile cache.
std::string CacheFolder(std::string_view store, std::string_view key);

std::string WriteOrder(const WeightsOrder& order);
absl::StatusOr<WeightsOrder> ReadOrder(std::string_view text);

}  // namespace plugins::weights
