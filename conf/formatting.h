// fmt's formatter, which formatting.cc has compiled. Without this, each file that appends formatted text to a string compiles
// it once more: eighty kilobytes and two seconds.
#pragma once

#include <fmt/format.h>

extern template void fmt::detail::vformat_to<char>(buffer<char>&, basic_string_view<char>,
                                                   basic_format_args<buffer_context<char>>, locale_ref);
