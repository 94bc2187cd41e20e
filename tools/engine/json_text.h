// Writing JSON by hand, where a tree would cost more than the answer.
#pragma once

#include <string>
#include <string_view>

namespace tidegate_engine {

// `text` as the inside of a JSON string.
void AppendEscaped(std::string& out, std::string_view text);

// `text` as a JSON string, quotes included.
void AppendQuoted(std::string& out, std::string_view text);
std::string Quoted(std::string_view text);

}  // namespace tidegate_engine
