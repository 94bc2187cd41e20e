#include "conf/json_dump.h"

#include <nlohmann/json.hpp>

namespace conf {

std::string DumpJson(const nlohmann::json& tree) {
  return tree.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string DumpJson(const nlohmann::ordered_json& tree) {
  return tree.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace conf
