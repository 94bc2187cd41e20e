// Finding a short text in a longer one, for paths where a request is scanned more than once.
#pragma once

#include <cstddef>
#include <string_view>

namespace conf {

// Like text.find(needle). Faster than memmem and std::string_view on texts of some hundred bytes, where both
// take longer to begin than to search.
size_t Find(std::string_view text, std::string_view needle);

inline bool Contains(std::string_view text, std::string_view needle) {
  return Find(text, needle) != std::string_view::npos;
}

}  // namespace conf
