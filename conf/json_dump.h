// A JSON tree as text on one line. Bytes that are no UTF-8 are replaced, so nothing throws.
//
// Pure functions without state; callable from every thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace conf {

std::string DumpJson(const nlohmann::json& tree);
std::string DumpJson(const nlohmann::ordered_json& tree);

}  // namespace conf
