// Tokens that were verified, by SHA-256 of their text, so that a request costs a hash and not a signature.
//
// Bounded in bytes; the one used longest ago goes first. Owner and thread: one shard, no locks. A token is
// never kept itself, and an entry says with which keys it was verified: when those change, it is void.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "plugins/auth/digest.h"
#include "plugins/auth/jwt.h"

namespace plugins::auth {

class TokenCache {
 public:
  struct Entry {
    std::shared_ptr<const JwtIdentity> identity;
    size_t issuer = 0;        // index in the authenticator's list
    uint64_t generation = 0;  // of the key set that verified it
  };

  explicit TokenCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Null when it is not there. Moves it to the front; does not allocate. Valid until the next change.
  const Entry* Find(const Digest& token);
  // Makes room by dropping the oldest; an entry larger than the whole cache is not taken.
  void Insert(const Digest& token, Entry entry);
  void Erase(const Digest& token);

  size_t size() const { return by_token_.size(); }
  size_t bytes() const { return bytes_; }
  uint64_t evicted() const { return evicted_; }

 private:
  struct Node {
    Digest token;
    Entry entry;
    size_t bytes;
  };
  using Order = std::list<Node>;  // most recently used first

  const size_t max_bytes_;
  size_t bytes_ = 0;
  uint64_t evicted_ = 0;
  Order order_;
  absl::flat_hash_map<Digest, Order::iterator> by_token_;
};

}  // namespace plugins::auth
