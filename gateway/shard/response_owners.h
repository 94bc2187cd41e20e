// ResponseOwners: which tenant made a stored response of the Responses API. Engines and providers give a response to
// any caller that knows its id; through the gateway, only the tenant that made it may continue it.
//
// Process-wide and thread-safe. Remembers the last kMost responses of this process.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

namespace gateway {

class ResponseOwners {
 public:
  static constexpr size_t kMost = 1 << 17;

  void Note(std::string_view response, std::string_view tenant);
  bool Owns(std::string_view response, std::string_view tenant) const;

 private:
  mutable std::mutex mutex_;
  absl::flat_hash_map<uint64_t, uint64_t> tenants_;  // hashes; guarded by mutex_, like the others
  std::vector<uint64_t> order_;                      // becomes a ring when it is full
  size_t oldest_ = 0;
};

}  // namespace gateway
