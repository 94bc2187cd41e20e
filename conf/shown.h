// Values from outside as text in messages: without characters that a terminal or a page would obey, and
// durations as people say them.
//
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "conf/time.h"

namespace conf {

// Escapes control characters as `\x1b`, and characters that change the direction of text or are invisible
// as `\u202e`, so that the shown text is the real one, on one line. Applying it twice changes nothing.
std::string Visible(std::string_view text);

// Without all but the printable characters of ASCII: what any page and any log may show.
std::string OnlyPrintable(std::string text);

// "250ms", "1.21s", "90s", "5m", "3m20s", "2h05m", "14d": the value itself where two or three digits tell it,
// else rounded. For people: FormatDuration keeps every digit.
std::string InWords(Duration value);

// "1 model", "2 models". The noun takes an s.
std::string Counted(uint64_t count, std::string_view noun);

}  // namespace conf
