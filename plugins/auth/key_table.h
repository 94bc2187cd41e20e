// All keys at one moment, and the check that every request passes.
//
// A table is immutable: shards hold it by shared_ptr and are given another when a key changes. A record lives
// as long as its table; a request that outlives the swap keeps the table, or copies the record's pointer.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <string>
#include <string_view>
#include <vector>

#include "conf/text.h"
#include "conf/time.h"
#include "plugins/auth/key_record.h"

namespace plugins::auth {

class KeyTable {
 public:
  using Map = absl::flat_hash_map<std::string, KeyRecordPtr>;

  KeyTable() = default;
  KeyTable(uint64_t version, Map records) : version_(version), records_(std::move(records)) {}

  // Null when there is none.
  const KeyRecordPtr* Find(std::string_view id) const {
    const auto it = records_.find(conf::Abseil(id));
    return it == records_.end() ? nullptr : &it->second;
  }

  // All keys, by creation time, then id.
  std::vector<KeyRecordPtr> List() const;

  size_t size() const { return records_.size(); }
  // The number of the last change in it, in the store's sequence.
  uint64_t version() const { return version_; }

 private:
  uint64_t version_ = 0;
  Map records_;
};

struct Verdict {
  enum class Kind { kOk, kUnknown, kExpired, kRevoked, kReplaced };
  Kind kind = Kind::kUnknown;
  const KeyRecord* record = nullptr;  // null for kUnknown; owned by the table
  std::string_view id;                // the public part of what was sent; empty when it has no key's shape

  bool ok() const { return kind == Kind::kOk; }
  // For people: names the key by its id and says what happened to it. Allocates.
  std::string Message() const;
};

// One hash, one look-up, one comparison in constant time; no allocation. Only a caller with the whole key
// learns that it is expired, revoked or replaced. At `EndsAt()` itself the key no longer works; a revoked
// key does not work whatever `now` is, so that clocks that differ between machines never let it through.
Verdict Check(const KeyTable& table, std::string_view secret, conf::TimePoint now);

}  // namespace plugins::auth
