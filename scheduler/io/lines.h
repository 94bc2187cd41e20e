// Going through a text line by line.
#pragma once

#include <string_view>

#include "conf/byte_order_mark.h"

namespace scheduler::io {

// Calls `each(line, number)`, numbers from 1, without line ends ("\n" or "\r\n") and without a byte order
// mark before the first.
template <class Each>
void ForEachLine(std::string_view text, const Each& each) {
  if (text.starts_with(conf::kByteOrderMark)) text.remove_prefix(conf::kByteOrderMark.size());
  int number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    each(line, ++number);
  }
}

}  // namespace scheduler::io
