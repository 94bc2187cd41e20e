// The answers of the admin API as JSON Schema.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace gateway::admin {

// An object of all schemas by name: components.schemas of the OpenAPI document.
const nlohmann::ordered_json& Schemas();

}  // namespace gateway::admin
