#include "tools/engine/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "conf/json_parse.h"
#include "conf/json_text.h"

namespace tidegate_engine {
namespace {

bool IsSglang(const Exchange& exchange) {
  return !exchange.path().starts_with("/v1/");
}

std::string TextOf(const Json& body, const char* name) {
  const auto at = body.is_object() ? body.find(name) : body.end();
  return body.is_object() && at != body.end() && at->is_string() ? at->get<std::string>() : std::string();
}

}  // namespace

std::string LoraPaths::SourceOf(std::string_view name) const {
  if (name.empty() || std::ranges::find(options_.loras, name) == options_.loras.end()) return {};
  const auto loaded = options_.lora_sources.find(name);
  return loaded == options_.lora_sources.end() ? fmt::format("/adapters/{}", name) : loaded->second;
}

Task<bool> LoraPaths::Serve(Exchange& exchange, Api api) {
  const Json body = conf::ParseJson(exchange.body());
  const std::string name = TextOf(body, "lora_name");
  const std::string path = TextOf(body, "lora_path");
  if (name.empty() || (api == Api::kLoadLora && path.empty()))
    co_return co_await Refuse(exchange, 400, "Both 'lora_name' and 'lora_path' must be provided.");
  if (api == Api::kLoadLora) co_return co_await Load(exchange, name, path);
  co_return co_await Unload(exchange, name);
}

Task<bool> LoraPaths::Load(Exchange& exchange, const std::string& name, const std::string& path) {
  const auto has = [&] { return std::ranges::find(options_.loras, name) != options_.loras.end(); };
  if (has())
    co_return co_await Refuse(exchange, 400,
                              fmt::format("The lora adapter '{}' has already been loaded.", name));
  std::error_code error;
  const std::filesystem::path file = std::filesystem::path(path) / "adapter_config.json";
  if (path.starts_with('/') && !std::filesystem::exists(file, error))
    co_return co_await Refuse(exchange, 404, fmt::format("No adapter found for {}", path));
  const auto loaded =
      std::ranges::count_if(options_.loras, [](const std::string& of) { return !of.empty(); });
  if (options_.max_loaded_loras && std::cmp_greater_equal(loaded, *options_.max_loaded_loras)) {
    co_return co_await Refuse(
        exchange, 400, fmt::format("{} adapters are loaded, as many as --max-loaded-loras allows.", loaded));
  }
  gateway::net::Sleep pause(loop_.watchdog);
  co_await pause.For(std::chrono::duration_cast<conf::Duration>(engine_.model().profile().lora_load));
  if (!has()) options_.loras.push_back(name);
  options_.lora_sources[name] = path;
  co_return co_await Done(exchange, "added", name);
}

Task<bool> LoraPaths::Unload(Exchange& exchange, const std::string& name) {
  const auto at = std::ranges::find(options_.loras, name);
  if (at == options_.loras.end())
    co_return co_await Refuse(exchange, 404, fmt::format("The lora adapter '{}' cannot be found.", name));
  at->clear();
  options_.lora_sources.erase(name);
  co_return co_await Done(exchange, "removed", name);
}

Task<bool> LoraPaths::Refuse(Exchange& exchange, int status, std::string why) {
  if (IsSglang(exchange)) {
    co_await exchange.Send(400, {{"content-type", "application/json"}},
                           fmt::format(R"({{"success":false,"error_message":{}}})", conf::Quoted(why)));
    co_return true;
  }
  co_return co_await Fail(exchange, stats_, Api::kLoadLora,
                          {.status = status, .type = {}, .message = std::move(why), .param = {}});
}

Task<bool> LoraPaths::Done(Exchange& exchange, std::string_view what, const std::string& name) {
  if (IsSglang(exchange)) co_return co_await Reply(exchange, R"({"success":true})");
  co_await exchange.Send(200, {{"content-type", "text/plain; charset=utf-8"}},
                         fmt::format("Success: LoRA adapter '{}' {} successfully.", name, what));
  co_return true;
}

}  // namespace tidegate_engine
