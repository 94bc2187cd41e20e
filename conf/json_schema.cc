#include "conf/json_schema.h"

namespace conf {

nlohmann::ordered_json Nullable(nlohmann::ordered_json schema) {
  if (schema.contains("type")) {
    schema["type"] = {schema["type"], "null"};
    return schema;
  }
  return {{"anyOf", {std::move(schema), {{"type", "null"}}}}};
}

}  // namespace conf
