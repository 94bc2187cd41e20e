// Typed access to the fields of a JSON object. Null counts as absent; the first wrong type or value becomes
// the error.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tools/engine/api.h"

namespace tidegate_engine {

using Element = simdjson::dom::element;

class Fields {
 public:
  Fields(simdjson::dom::object object, std::optional<ApiError>& error) : object_(object), error_(error) {}

  // Absent also for null.
  std::optional<Element> Get(std::string_view key) const;
  bool Bool(std::string_view key, bool otherwise) const;
  std::optional<uint32_t> Uint(std::string_view key, uint32_t least) const;
  std::optional<std::string_view> String(std::string_view key) const;
  std::optional<Fields> Object(std::string_view key) const;

  void Fail(std::string_view param, std::string message) const;

 private:
  simdjson::dom::object object_;
  std::optional<ApiError>& error_;
};

}  // namespace tidegate_engine
