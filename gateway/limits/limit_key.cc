#include "gateway/limits/limit_key.h"

namespace gateway {

std::string_view LimitKeyOf(const plugins::auth::KeyTable& keys, std::string_view id) {
  // Bounded, because a store that was edited by hand may have a cycle.
  for (size_t left = keys.size(); left > 0; --left) {
    const plugins::auth::KeyRecordPtr* key = keys.Find(id);
    if (key == nullptr || (*key)->rotated_from.empty()) break;
    id = (*key)->rotated_from;
  }
  return id;
}

}  // namespace gateway
