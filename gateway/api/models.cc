#include "gateway/api/models.h"

#include <fmt/format.h>

#include "gateway/api/json.h"

namespace gateway::api {
namespace {

void Write(JsonWriter& json, Protocol protocol, const ModelCard& model) {
  json.Open('{');
  if (protocol == Protocol::kAnthropic) {
    json.Key("type").String("model").Key("id").String(model.id).Key("display_name").String(model.id);
    json.Key("created_at").String(conf::FormatTime(model.created)).Close('}');
    return;
  }
  const auto created = std::chrono::floor<std::chrono::seconds>(model.created.time_since_epoch()).count();
  json.Key("id").String(model.id).Key("object").String("model").Key("created").Raw(std::to_string(created));
  json.Key("owned_by").String(model.owned_by);
  json.Key("root").String(model.root.empty() ? model.id : model.root).Key("parent");
  if (model.parent.empty()) {
    json.Null();
  } else {
    json.String(model.parent);
  }
  json.Close('}');
}

void WriteId(JsonWriter& json, std::string_view key, std::span<const ModelCard> models, bool first) {
  json.Key(key);
  if (models.empty()) {
    json.Null();
  } else {
    json.String(first ? models.front().id : models.back().id);
  }
}

}  // namespace

std::string RenderModels(Protocol protocol, std::span<const ModelCard> models) {
  std::string out;
  JsonWriter json(out);
  json.Open('{');
  if (protocol == Protocol::kOpenAi) json.Key("object").String("list");
  json.Key("data").Open('[');
  for (const ModelCard& model : models) Write(json, protocol, model);
  json.Close(']');
  if (protocol == Protocol::kAnthropic) {
    json.Key("has_more").Bool(false);
    WriteId(json, "first_id", models, true);
    WriteId(json, "last_id", models, false);
  }
  json.Close('}');
  return out;
}

std::string RenderModel(Protocol protocol, const ModelCard& model) {
  std::string out;
  JsonWriter json(out);
  Write(json, protocol, model);
  return out;
}

}  // namespace gateway::api
