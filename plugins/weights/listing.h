// Listing: the files of a model with their SHA-256, in the form of the tool sha256sum. Pure.
//
// The digest of a model of several files is the SHA-256 of its listing: a line "HEX  PATH" for each file, in
// the order of the paths' bytes. So it does not depend on where the files come from, and anybody computes it:
//
//   find . -type f -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

namespace plugins::weights {

struct ListedFile {
  std::string path{};  // relative, with '/'
  std::string sha256{};
  friend bool operator==(const ListedFile&, const ListedFile&) = default;
};

// In any order; sorts.
std::string WriteListing(std::vector<ListedFile> files);

// Reads the form of sha256sum, in any order, also its binary form ("HEX *PATH"); a leading "./" is dropped. A path that
// would leave the folder, or that is given twice, is InvalidArgument; `name` begins the message.
absl::StatusOr<std::vector<ListedFile>> ReadListing(std::string_view text, std::string_view name);

// The defect of the path of a file inside a model's folder; empty: none. Paths come from servers.
std::string PathDefect(std::string_view path);

}  // namespace plugins::weights
