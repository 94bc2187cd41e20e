// JSON strings as text, from unchecked bytes.
//
// Pure functions without state; callable from every thread. Nothing here parses a document.
#pragma once

#include <string>
#include <string_view>

namespace conf {

// Appends `text` as a JSON string, quotes included. Control characters are escaped; each maximal ill-formed
// part of invalid UTF-8 becomes one U+FFFD (Unicode 15, section 3.9), so the result is always valid JSON on
// one line.
void AppendQuoted(std::string& out, std::string_view text);
std::string Quoted(std::string_view text);
// The same without the quotes.
void AppendEscaped(std::string& out, std::string_view text);

}  // namespace conf
