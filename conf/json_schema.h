// Describes structs as JSON schemas by the fields that they list (fields.h), as OpenAPI 3.1 takes them.
//
// A struct with a constant `kSchema` is described once, under that name, and referred to from elsewhere; one
// with a function `DescribeSchema()` says itself what it is. Lists and maps are described by what they hold.
#pragma once

#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "conf/fields.h"
#include "conf/json_fields.h"

namespace conf {

class JsonSchemas {
 public:
  // What T is where it is used: its type, or a reference to its description among `named()`.
  template <class T>
  nlohmann::ordered_json Of();

  // The descriptions by name, in the order in which they were first referred to.
  const nlohmann::ordered_json& named() const { return named_; }

 private:
  template <class T>
  nlohmann::ordered_json Describe();

  nlohmann::ordered_json named_ = nlohmann::ordered_json::object();
};

nlohmann::ordered_json Nullable(nlohmann::ordered_json schema);

namespace internal {

// The fields of one struct while it is described.
class FieldDescriber {
 public:
  FieldDescriber(JsonSchemas& schemas, nlohmann::ordered_json& into) : schemas_(&schemas), into_(&into) {}

  template <class M>
  void Required(std::string_view key, const M&) {
    if constexpr (kIsOptional<M>) {
      Add(key, Nullable(schemas_->Of<typename M::value_type>()), true);
    } else {
      Add(key, schemas_->Of<M>(), true);
    }
  }
  template <class M>
  void Always(std::string_view key, const M& field) {
    Required(key, field);
  }
  template <class M>
  void Optional(std::string_view key, const M&) {
    if constexpr (kIsOptional<M>) {
      Add(key, schemas_->Of<typename M::value_type>(), false);
    } else {
      Add(key, schemas_->Of<M>(), false);
    }
  }
  template <class M>
  void Inline(M& field) {
    Bind(*this, field);
  }
  template <class M>
  void NotWritten(const M&) {}

 private:
  void Add(std::string_view key, nlohmann::ordered_json schema, bool required) {
    (*into_)["properties"][std::string(key)] = std::move(schema);
    if (required) (*into_)["required"].push_back(key);
  }

  JsonSchemas* schemas_;
  nlohmann::ordered_json* into_;
};

}  // namespace internal

template <class T>
nlohmann::ordered_json JsonSchemas::Describe() {
  if constexpr (requires { T::DescribeSchema(); }) {
    return T::DescribeSchema();
  } else {
    nlohmann::ordered_json out = {{"type", "object"},
                                  {"properties", nlohmann::ordered_json::object()},
                                  {"required", nlohmann::ordered_json::array()}};
    T fields{};
    internal::FieldDescriber describer(*this, out);
    Bind(describer, fields);
    return out;
  }
}

template <class T>
nlohmann::ordered_json JsonSchemas::Of() {
  if constexpr (std::same_as<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::integral<T>) {
    return {{"type", "integer"}};
  } else if constexpr (std::floating_point<T>) {
    return {{"type", "number"}};
  } else if constexpr (std::same_as<T, TimePoint> || std::same_as<T, ShownTime>) {
    return {{"type", "string"}, {"format", "date-time"}};
  } else if constexpr (std::same_as<T, RawJson>) {
    return {{"type", "object"}};
  } else if constexpr (std::convertible_to<T, std::string_view> || HasWords<T>) {
    return {{"type", "string"}};
  } else if constexpr (internal::kIsVector<T>) {
    return {{"type", "array"}, {"items", Of<typename T::value_type>()}};
  } else if constexpr (internal::kIsMap<T>) {
    return {{"type", "object"}, {"additionalProperties", Of<typename T::mapped_type>()}};
  } else if constexpr (requires { T::kSchema; }) {
    const std::string name(T::kSchema);
    if (!named_.contains(name)) {
      named_[name] = nullptr;  // it may refer to itself, and stands before what it refers to
      named_[name] = Describe<T>();
    }
    return {{"$ref", "#/components/schemas/" + name}};
  } else {
    return Describe<T>();
  }
}

}  // namespace conf
