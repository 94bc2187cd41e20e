#include "gateway/control/models/adapter.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "conf/text.h"

namespace gateway::control {
namespace {

using nlohmann::json;

}  // namespace

std::string IdOf(std::string_view base, std::string_view name) {
  return fmt::format("{}|{}", base, name);
}

std::string BodyOf(const Adapter& adapter) {
  return conf::DumpJson(json{{"base", adapter.base},
                             {"name", adapter.name},
                             {"source", adapter.source},
                             {"by", adapter.by},
                             {"since_us", conf::ToUnixMicros(adapter.since)},
                             {"leaves", adapter.leaves}});
}

absl::StatusOr<Adapter> ReadAdapter(const std::string& id, const std::string& body) {
  const json in = conf::ParseJson(body);
  try {
    Adapter adapter{.base = in.at("base").get<std::string>(),
                    .name = in.at("name").get<std::string>(),
                    .source = in.at("source").get<std::string>(),
                    .by = in.at("by").get<std::string>(),
                    .since = conf::FromUnixMicros(in.at("since_us").get<int64_t>()),
                    .leaves = in.at("leaves").get<bool>()};
    if (IdOf(adapter.base, adapter.name) != id) throw std::invalid_argument("its id belongs to another one");
    return adapter;
  } catch (const std::exception& error) {
    return absl::DataLossError(conf::Abseil(fmt::format("adapter {}: {}", id, error.what())));
  }
}

bool TakeRecord(const AdapterRecord& record, std::map<std::string, Adapter>& adapters) {
  if (!record.action.starts_with("adapter.")) return false;
  const json detail = conf::ParseJson(record.detail);
  if (!detail.is_object()) return true;
  Adapter adapter{.base = detail.value("base", ""),
                  .name = std::string(record.subject),
                  .source = detail.value("source", ""),
                  .by = std::string(record.actor),
                  .since = record.at};
  const std::string id = IdOf(adapter.base, adapter.name);
  if (record.action == kLoadAdapterAction) {
    adapters[id] = std::move(adapter);
  } else if (record.action != kDisplacedAdapterAction) {
    adapters.erase(id);
  }
  return true;
}

std::string DetailOf(const Adapter& adapter, std::string_view replica, std::string_view why) {
  json detail = {{"base", adapter.base}, {"source", adapter.source}};
  if (!replica.empty()) detail["replica"] = replica;
  if (!why.empty()) detail["why"] = why;
  return conf::DumpJson(detail);
}

}  // namespace gateway::control
