// Text of others inside an HTML or SVG document.
#pragma once

#include <string>
#include <string_view>

namespace conf {

// The text as content or as a quoted attribute. Control characters other than line breaks and tabs become spaces.
std::string HtmlEscaped(std::string_view text);

}  // namespace conf
