#include "plugins/weights/byte_range.h"

#include <algorithm>

#include "conf/text.h"

namespace plugins::weights {

std::optional<AskedBytes> ReadRange(std::string_view field, uint64_t size) {
  const AskedBytes all{.count = size};
  constexpr std::string_view kUnit = "bytes=";
  if (!field.starts_with(kUnit)) return all;
  field.remove_prefix(kUnit.size());
  const size_t dash = field.find('-');
  if (dash == std::string_view::npos) return all;
  const std::string_view from = field.substr(0, dash);
  const std::string_view to = field.substr(dash + 1);
  const std::optional<uint64_t> first = conf::ReadNumber<uint64_t>(from);
  const std::optional<uint64_t> last = conf::ReadNumber<uint64_t>(to);
  if ((!from.empty() && !first) || (!to.empty() && !last) || (!first && !last)) return all;
  if (!first) {  // the last bytes
    if (*last == 0 || size == 0) return std::nullopt;
    const uint64_t count = std::min(*last, size);
    return AskedBytes{.first = size - count, .count = count, .part = true};
  }
  if (last && *last < *first) return all;
  if (*first >= size) return std::nullopt;
  const uint64_t end = last ? std::min(*last, size - 1) + 1 : size;
  return AskedBytes{.first = *first, .count = end - *first, .part = true};
}

}  // namespace plugins::weights
