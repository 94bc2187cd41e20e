// A JSON text as a tree, which is "discarded" when the text is not one JSON value. Nothing throws. json_reader.h is for what
// people write: it says what is wrong and where.
//
// Pure functions without state; callable from every thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace conf {

nlohmann::json ParseJson(std::string_view text);
nlohmann::ordered_json ParseOrderedJson(std::string_view text);  // members keep the text's order

}  // namespace conf
