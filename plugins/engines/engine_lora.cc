#include "plugins/engines/engine_lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "conf/json_dump.h"
#include "conf/json_parse.h"

namespace plugins::engines {
namespace {

using nlohmann::json;

constexpr size_t kLongestRefusal = 300;

constexpr std::array<EngineLora, 2> kWithAdapters{
    {{"vllm", "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/v1/models"},
     {"sglang", "/load_lora_adapter", "/unload_lora_adapter", "/v1/models"}}};

// vLLM: {"error": {"message": …}}, earlier {"message": …}; SGLang: {"error_message": …}.
std::string MessageIn(std::string_view body) {
  const json parsed = conf::ParseJson(body);
  if (!parsed.is_object()) return std::string(body);
  const json* in = &parsed;
  if (const auto error = parsed.find("error"); error != parsed.end() && error->is_object()) in = &*error;
  for (const char* const name : {"message", "error_message"}) {
    if (const auto at = in->find(name); at != in->end() && at->is_string()) return at->get<std::string>();
  }
  return {};
}

}  // namespace

const EngineLora* FindEngineLora(std::string_view engine) {
  const auto* const found = std::ranges::find(kWithAdapters, engine, &EngineLora::engine);
  return found == kWithAdapters.end() ? nullptr : found;
}

std::string LoadBody(std::string_view name, std::string_view source) {
  return conf::DumpJson(json{{"lora_name", name}, {"lora_path", source}});
}

std::string UnloadBody(std::string_view name) {
  return conf::DumpJson(json{{"lora_name", name}});
}

absl::StatusOr<std::vector<std::string>> ListedAdapters(std::string_view body) {
  const json parsed = conf::ParseJson(body);
  const auto data = parsed.is_object() ? parsed.find("data") : parsed.end();
  if (!parsed.is_object() || data == parsed.end() || !data->is_array())
    return absl::DataLossError("its list of models is not valid");
  std::vector<std::string> names;
  for (const json& model : *data) {
    if (!model.is_object() || !model.contains("id") || !model["id"].is_string()) continue;
    const auto parent = model.find("parent");
    if (parent != model.end() && parent->is_string()) names.push_back(model["id"].get<std::string>());
  }
  return names;
}

std::string RefusalIn(int status, std::string_view body) {
  std::string said = MessageIn(body);
  for (char& c : said) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  if (said.size() > kLongestRefusal) said = said.substr(0, kLongestRefusal) + "…";
  return said.empty() ? fmt::format("it answers {}", status) : fmt::format("it answers {}: {}", status, said);
}

}  // namespace plugins::engines
