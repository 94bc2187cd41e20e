// What tests ask of stored files: their bytes, and how many there are in the folder.
#pragma once

#include <absl/status/statusor.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <utility>

#include "gateway/batches/files.h"
#include "gateway/batches/place_reader.h"
#include "gateway/net/loop.h"

namespace gateway::batches {

// The bytes of a file of the tenant demo.
inline net::Task<absl::StatusOr<std::string>> ReadStored(Files& files, std::string id) {
  const StoredFile* const found = files.Find("demo", id, net::Now());
  if (found == nullptr) co_return absl::NotFoundError("no file");
  absl::StatusOr<Files::Place> place = co_await files.PlaceOf(*found);
  if (!place.ok()) co_return place.status();
  co_return ReadPlace(*std::move(place), 1u << 20);
}

inline size_t EntriesOf(const std::string& path) {
  const std::filesystem::directory_iterator folder(path);
  return static_cast<size_t>(std::distance(begin(folder), end(folder)));
}

}  // namespace gateway::batches
