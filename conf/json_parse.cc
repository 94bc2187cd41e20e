#include "conf/json_parse.h"

#include <nlohmann/json.hpp>

namespace conf {

nlohmann::json ParseJson(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, false);
}

nlohmann::ordered_json ParseOrderedJson(std::string_view text) {
  return nlohmann::ordered_json::parse(text, nullptr, false);
}

}  // namespace conf
