#include "plugins/auth/token_cache.h"

#include <utility>

namespace plugins::auth {
namespace {

constexpr size_t kPerEntry = 256;  // list and hash map nodes, control blocks, slack

size_t BytesOf(const JwtIdentity& identity) {
  size_t bytes = kPerEntry + sizeof(JwtIdentity) + identity.key_id.capacity() + identity.issuer.capacity() +
                 identity.tenant.capacity();
  for (const auto* list : {&identity.permissions.models, &identity.permissions.endpoints}) {
    bytes += list->capacity() * sizeof(std::string);
    for (const std::string& text : *list) bytes += text.capacity();
  }
  return bytes;
}

}  // namespace

const TokenCache::Entry* TokenCache::Find(const Digest& token) {
  const auto it = by_token_.find(token);
  if (it == by_token_.end()) return nullptr;
  order_.splice(order_.begin(), order_, it->second);
  return &it->second->entry;
}

void TokenCache::Insert(const Digest& token, Entry entry) {
  Erase(token);
  const size_t bytes = BytesOf(*entry.identity);
  if (bytes > max_bytes_) return;
  while (bytes_ + bytes > max_bytes_) {
    ++evicted_;
    const Digest oldest = order_.back().token;
    Erase(oldest);
  }
  order_.push_front({token, std::move(entry), bytes});
  by_token_.emplace(token, order_.begin());
  bytes_ += bytes;
}

void TokenCache::Erase(const Digest& token) {
  const auto it = by_token_.find(token);
  if (it == by_token_.end()) return;
  bytes_ -= it->second->bytes;
  order_.erase(it->second);
  by_token_.erase(it);
}

}  // namespace plugins::auth
