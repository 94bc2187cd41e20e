// The byte order mark of UTF-8, which some editors and engines write before a text. It is not part of the text.
#pragma once

#include <string_view>

namespace conf {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace conf
