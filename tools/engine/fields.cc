#include "tools/engine/fields.h"

#include <fmt/format.h>

#include "conf/json_type.h"

namespace tidegate_engine {
std::optional<Element> Fields::Get(std::string_view key) const {
  Element element;
  if (object_.at_key(key).get(element) != simdjson::SUCCESS || element.is_null()) return std::nullopt;
  return element;
}

void Fields::Fail(std::string_view param, std::string message) const {
  if (!error_)
    error_ = ApiError{.status = 400, .type = {}, .message = std::move(message), .param = std::string(param)};
}

bool Fields::Bool(std::string_view key, bool otherwise) const {
  auto element = Get(key);
  if (!element) return otherwise;
  bool value = otherwise;
  if (element->get(value) != simdjson::SUCCESS) {
    Fail(key, fmt::format("{} must be a boolean, got {}.", key, conf::TypeName(*element)));
  }
  return value;
}

std::optional<uint32_t> Fields::Uint(std::string_view key, uint32_t least) const {
  auto element = Get(key);
  if (!element) return std::nullopt;
  int64_t value = 0;
  if (element->get(value) != simdjson::SUCCESS) {
    Fail(key, fmt::format("{} must be an integer, got {}.", key, conf::TypeName(*element)));
    return std::nullopt;
  }
  if (value < least || value > UINT32_MAX) {
    Fail(key, fmt::format("{} must be at least {} and below 2^32, got {}.", key, least, value));
    return std::nullopt;
  }
  return static_cast<uint32_t>(value);
}

std::optional<std::string_view> Fields::String(std::string_view key) const {
  auto element = Get(key);
  if (!element) return std::nullopt;
  std::string_view value;
  if (element->get(value) != simdjson::SUCCESS) {
    Fail(key, fmt::format("{} must be a string, got {}.", key, conf::TypeName(*element)));
    return std::nullopt;
  }
  return value;
}

std::optional<Fields> Fields::Object(std::string_view key) const {
  auto element = Get(key);
  if (!element) return std::nullopt;
  simdjson::dom::object value;
  if (element->get(value) != simdjson::SUCCESS) {
    Fail(key, fmt::format("{} must be an object, got {}.", key, conf::TypeName(*element)));
    return std::nullopt;
  }
  return Fields(value, error_);
}

}  // namespace tidegate_engine
