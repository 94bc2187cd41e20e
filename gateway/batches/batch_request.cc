#include "gateway/batches/batch_request.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "conf/json_reader.h"
#include "conf/time.h"

namespace gateway::batches {
namespace {

constexpr conf::Duration kLeastWindow = std::chrono::hours(1);
constexpr conf::Duration kMostWindow = std::chrono::days(7);
constexpr size_t kMostMetadata = 16;
constexpr size_t kMostMetadataKey = 64;
constexpr size_t kMostMetadataValue = 512;

}  // namespace

Result<Creation> ReadCreation(const std::string& text) {
  const auto wrong = [](std::string_view param, std::string_view why) {
    return api::Make(api::Code::kInvalidValue, fmt::format("{} {}", param, why), std::string(param));
  };
  conf::JsonFaults faults;
  const std::optional<conf::Json> body = conf::ParseJson(text, faults);
  if (!body || !body->is_object())
    return api::Make(api::Code::kInvalidJson, "the body must be one JSON object, without a repeated member");
  Creation creation;
  for (const auto& [name, into] :
       {std::pair("input_file_id", &creation.input_file), std::pair("endpoint", &creation.endpoint),
        std::pair("completion_window", &creation.window)}) {
    const auto found = body->find(name);
    if (found == body->end())
      return api::Make(api::Code::kMissingParameter, fmt::format("{} must be given", name), name);
    if (!found->is_string())
      return api::Make(api::Code::kInvalidType, fmt::format("{} must be a string", name), name);
    *into = found->get<std::string>();
  }
  const std::optional<conf::Duration> window = conf::ParseDuration(creation.window);
  if (!window || *window < kLeastWindow || *window > kMostWindow)
    return wrong("completion_window", "must be 24h, or another time from 1h to 7d");
  if (const auto found = body->find("metadata"); found != body->end() && !found->is_null()) {
    if (!found->is_object() || found->size() > kMostMetadata)
      return wrong("metadata", fmt::format("must be an object of at most {} members", kMostMetadata));
    for (const auto& [name, value] : found->items()) {
      if (!value.is_string() || name.size() > kMostMetadataKey ||
          value.get_ref<const std::string&>().size() > kMostMetadataValue) {
        return wrong("metadata", fmt::format("must have names of at most {} bytes and texts of at most {} "
                                             "bytes",
                                             kMostMetadataKey, kMostMetadataValue));
      }
      creation.metadata[name] = value.get<std::string>();
    }
  }
  if (const auto found = body->find("output_expires_after"); found != body->end() && !found->is_null()) {
    const bool fits = found->is_object() && found->value("anchor", conf::Json()) == "created_at" &&
                      found->contains("seconds") && found->at("seconds").is_number_integer();
    const int64_t seconds = fits ? found->at("seconds").get<int64_t>() : 0;
    if (seconds < kLeastAge || seconds > kMostAge) {
      return wrong("output_expires_after",
                   fmt::format("must be {{anchor: created_at, seconds: {} to {}}}", kLeastAge, kMostAge));
    }
    creation.output_age = std::chrono::seconds(seconds);
  }
  return creation;
}

}  // namespace gateway::batches
