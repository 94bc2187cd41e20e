#include "tools/engine/schema.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <string>

namespace tidegate_engine {
namespace {

// An independent check of the keywords that MakeInstance promises.
bool Valid(const Json& value, const Json& schema, const Json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref")) {
    std::string at = schema["$ref"].get<std::string>().substr(1);
    return Valid(value, at.empty() ? root : root.at(Json::json_pointer(at)), root);
  }
  auto type_is = [&](const std::string& type) {
    return type == "object"    ? value.is_object()
           : type == "array"   ? value.is_array()
           : type == "string"  ? value.is_string()
           : type == "integer" ? value.is_number_integer()
           : type == "number"  ? value.is_number()
           : type == "boolean" ? value.is_boolean()
                               : value.is_null();
  };
  for (const auto& [key, rule] : schema.items()) {
    bool ok = true;
    if (key == "const") ok = value == rule;
    if (key == "enum") ok = std::find(rule.begin(), rule.end(), value) != rule.end();
    if (key == "type" && rule.is_string()) ok = type_is(rule);
    if (key == "type" && rule.is_array()) {
      ok = std::any_of(rule.begin(), rule.end(), [&](const Json& t) { return type_is(t); });
    }
    if (key == "anyOf" || key == "oneOf") {
      ok = std::any_of(rule.begin(), rule.end(), [&](const Json& s) { return Valid(value, s, root); });
    }
    if (key == "allOf")
      ok = std::all_of(rule.begin(), rule.end(), [&](const Json& s) { return Valid(value, s, root); });
    if (value.is_number()) {
      double x = value.get<double>();
      if (key == "minimum") ok = x >= rule.get<double>();
      if (key == "maximum") ok = x <= rule.get<double>();
      if (key == "exclusiveMinimum") ok = x > rule.get<double>();
      if (key == "exclusiveMaximum") ok = x < rule.get<double>();
      if (key == "multipleOf") ok = std::abs(std::remainder(x, rule.get<double>())) < 1e-9;
    }
    if (value.is_string()) {
      std::string text = value;
      if (key == "minLength") ok = text.size() >= rule.get<size_t>();
      if (key == "maxLength") ok = text.size() <= rule.get<size_t>();
      if (key == "pattern") ok = std::regex_search(text, std::regex(rule.get<std::string>()));
    }
    if (value.is_array()) {
      if (key == "minItems") ok = value.size() >= rule.get<size_t>();
      if (key == "maxItems") ok = value.size() <= rule.get<size_t>();
      if (key == "items" && !schema.contains("prefixItems")) {
        ok = std::all_of(value.begin(), value.end(),
                         [&](const Json& item) { return Valid(item, rule, root); });
      }
      if (key == "prefixItems") {
        for (size_t i = 0; i < rule.size(); ++i)
          ok = ok && value.size() > i && Valid(value[i], rule[i], root);
      }
      if (key == "uniqueItems") {
        for (size_t i = 0; i < value.size(); ++i)
          ok = ok && std::find(value.begin(), value.begin() + static_cast<long>(i), value[i]) ==
                         value.begin() + static_cast<long>(i);
      }
    }
    if (value.is_object()) {
      if (key == "required") {
        ok = std::all_of(rule.begin(), rule.end(), [&](const Json& name) { return value.contains(name); });
      }
      if (key == "properties") {
        for (const auto& [name, property] : rule.items()) {
          ok = ok && (!value.contains(name) || Valid(value[name], property, root));
        }
      }
      if (key == "additionalProperties" && rule == Json(false)) {
        for (const auto& [name, unused] : value.items()) ok = ok && schema["properties"].contains(name);
      }
    }
    if (!ok) return false;
  }
  return true;
}

class Schemas : public testing::TestWithParam<const char*> {};

TEST_P(Schemas, HaveInstancesThatValidate) {
  Json schema = Json::parse(GetParam());
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Json instance = MakeInstance(schema, seed);
    EXPECT_TRUE(Valid(instance, schema, schema)) << instance.dump();
    EXPECT_EQ(instance, MakeInstance(schema, seed));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Common, Schemas,
    testing::Values(
        R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1,"maximum":7}},
            "required":["city","days"],"additionalProperties":false})",
        R"({"type":"string","enum":["red","green","blue"]})", R"({"const":{"a":[1,2]}})",
        R"({"type":["string","null"]})", R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})",
        R"({"type":"number","minimum":0.001,"maximum":0.002})", R"({"type":"integer","maximum":-5})",
        R"({"type":"integer","multipleOf":7,"minimum":20,"maximum":30})",
        R"({"type":"number","multipleOf":0.25})", R"({"type":"string","minLength":40,"maxLength":45})",
        R"({"type":"string","maxLength":2})",
        R"({"type":"array","items":{"type":"boolean"},"minItems":5,"maxItems":6})",
        R"({"type":"array","items":{"enum":[1,2,3]},"uniqueItems":true,"maxItems":1})",
        R"({"type":"array","items":{"type":"string"},"maxItems":0})",
        R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}]})",
        R"({"anyOf":[{"type":"integer"},{"type":"string"}]})",
        R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]},{"type":"null"}]})",
        R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},
                     {"properties":{"b":{"type":"string"}},"required":["b"]}]})",
        R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","required":["v"],"properties":{
            "v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}}}}})",
        R"({"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}}},"required":["children"]})",
        R"({"type":"string","pattern":"^[A-Z]{3}-\\d{4}(-(a|b))?$"})",
        R"({"type":"string","pattern":"^\\+?[0-9 ]{6,12}$"})",
        R"({"type":"string","pattern":"^[^x]+@[\\w.]+\\.com$"})"));

TEST(Schema, KnownFormatsAreFilledIn) {
  EXPECT_EQ(MakeInstance(Json::parse(R"({"type":"string","format":"date"})"), 1), "2026-03-14");
  EXPECT_EQ(MakeInstance(Json::parse(R"({"type":"string","format":"uuid"})"), 1).get<std::string>().size(),
            36u);
}

TEST(Schema, WhatIsNoSchemaStillGivesAnAnswer) {
  for (const char* odd :
       {"true", "{}", "[]", "3", R"({"$ref":"#/nowhere"})", R"({"$ref":"#"})", R"({"type":"strange"})",
        R"({"type":"array","minItems":100000000})", R"({"type":"string","minLength":1e18})",
        R"({"type":"integer","minimum":1e300})", R"({"anyOf":[]})"}) {
    Json instance = MakeInstance(Json::parse(odd), 1);
    EXPECT_LT(instance.dump().size(), 300'000u) << odd;
  }
}

TEST(Schema, PatternsThatAreNotKnownAreSaidToBe) {
  std::string out;
  for (const char* pattern : {"(?=x)", "\\bword", "a{5000}", "[z-a]", "(", "[abc", "a)"}) {
    EXPECT_FALSE(MakeMatch(pattern, 1, out)) << pattern;
  }
}

}  // namespace
}  // namespace tidegate_engine
