#include "router/routes/adapter_id.h"

#include <xxhash.h>

#include <algorithm>

namespace router {

AdapterId AdapterIdOf(std::string_view name) {
  return static_cast<AdapterId>(std::max<uint64_t>(1, XXH3_64bits(name.data(), name.size())));
}

}  // namespace router
