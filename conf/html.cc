#include "conf/html.h"

#include <absl/strings/ascii.h>

namespace conf {

std::string HtmlEscaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '\n':
      case '\t':
        out += c;
        break;
      default:
        out += absl::ascii_iscntrl(static_cast<unsigned char>(c)) ? ' ' : c;
    }
  }
  return out;
}

}  // namespace conf
