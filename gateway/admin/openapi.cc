// The OpenAPI 3.1 document, generated from the table that routes.
#include <fmt/format.h>

#include "gateway/admin/answers/process.h"
#include "gateway/admin/handlers.h"
#include "gateway/net/http/server.h"

namespace gateway::admin {
namespace {

using nlohmann::ordered_json;

ordered_json TypeOf(Type type) {
  switch (type) {
    case Type::kText:
      return {{"type", "string"}};
    case Type::kTexts:
      return {{"type", "array"}, {"items", {{"type", "string"}}}};
    case Type::kWhole:
      return {{"type", "integer"}, {"minimum", 0}};
    case Type::kObject:
      return {{"type", "object"}};
  }
  return {};
}

ordered_json Parameters(const Route& route) {
  ordered_json parameters = ordered_json::array();
  for (size_t open = route.path.find('{'); open != std::string_view::npos;
       open = route.path.find('{', open + 1)) {
    const std::string_view name = route.path.substr(open + 1, route.path.find('}', open) - open - 1);
    parameters.push_back(
        {{"name", name}, {"in", "path"}, {"required", true}, {"schema", TypeOf(Type::kText)}});
  }
  for (const Member& member : route.query) {
    ordered_json schema = TypeOf(member.type);
    for (const std::string_view word : member.words) schema["enum"].push_back(word);
    parameters.push_back({{"name", member.name},
                          {"in", "query"},
                          {"required", member.required},
                          {"description", member.about},
                          {"schema", std::move(schema)}});
  }
  return parameters;
}

ordered_json Body(const Route& route) {
  ordered_json schema = {
      {"type", "object"}, {"properties", ordered_json::object()}, {"additionalProperties", false}};
  bool required = false;
  for (const Member& member : route.body) {
    ordered_json property = TypeOf(member.type);
    property["description"] = member.about;
    schema["properties"][std::string(member.name)] = std::move(property);
    if (!member.required) continue;
    schema["required"].push_back(member.name);
    required = true;
  }
  return {{"required", required}, {"content", {{"application/json", {{"schema", std::move(schema)}}}}}};
}

ordered_json Responses(const Route& route, conf::JsonSchemas& schemas) {
  ordered_json responses;
  for (const int status : route.statuses) {
    ordered_json& response = responses[std::to_string(status)];
    response["description"] = net::http::ReasonPhrase(status);
    if (route.schema == nullptr) {
      response["content"][std::string(route.text)]["schema"] = TypeOf(Type::kText);
    } else {
      response["content"]["application/json"]["schema"] = route.schema(schemas);
    }
  }
  responses["default"] = {{"description", "The error, as the gateway's own API reports it"},
                          {"content", {{"application/json", {{"schema", schemas.Of<answers::Error>()}}}}}};
  return responses;
}

ordered_json Document() {
  ordered_json document;
  document["openapi"] = "3.1.0";
  document["info"] = {{"title", "Tidegate admin API"},
                      {"version", TIDEGATE_VERSION},
                      {"license", {{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}};
  document["servers"] = ordered_json::array({{{"url", "/"}}});
  conf::JsonSchemas schemas;
  ordered_json& paths = document["paths"];
  for (const Route& route : Routes()) {
    ordered_json operation;
    operation["operationId"] = route.name;
    operation["summary"] = route.summary;
    if (!route.permission) {
      operation["security"] = ordered_json::array();
    } else {
      operation["description"] =
          fmt::format("Takes the permission {}: {}.", Name(*route.permission), WhoMay(*route.permission));
      operation["x-permission"] = Name(*route.permission);
    }
    if (ordered_json parameters = Parameters(route); !parameters.empty()) {
      operation["parameters"] = std::move(parameters);
    }
    if (!route.body.empty()) operation["requestBody"] = Body(route);
    operation["responses"] = Responses(route, schemas);
    const char* const method = route.method == net::http::Verb::get    ? "get"
                               : route.method == net::http::Verb::post ? "post"
                                                                       : "delete";
    paths[std::string(route.path)][method] = std::move(operation);
  }
  document["components"]["schemas"] = schemas.named();
  document["components"]["securitySchemes"] = {
      {"bearer", {{"type", "http"}, {"scheme", "bearer"}}},
      {"header", {{"type", "apiKey"}, {"in", "header"}, {"name", "x-api-key"}}},
      {"session", {{"type", "apiKey"}, {"in", "cookie"}, {"name", "__Host-tidegate"}}}};
  document["security"] = ordered_json::array({{{"bearer", ordered_json::array()}},
                                              {{"header", ordered_json::array()}},
                                              {{"session", ordered_json::array()}}});
  return document;
}

}  // namespace

Answer OpenApi(const Operations&, const Call&) {
  static const std::string text = Document().dump() + "\n";
  return {.body = text};
}

}  // namespace gateway::admin
