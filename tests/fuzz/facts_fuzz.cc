// The facts scan must read any bytes safely, and what it accepts must be JSON to a full parser as well.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "router/facts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static router::FactsScanner scanner;
  if (size == 0) return 0;
  const auto api = static_cast<router::Api>(data[0] % router::kApiCount);
  const std::string_view body(reinterpret_cast<const char*>(data + 1), size - 1);
  router::BodyFacts facts;
  if (scanner.Scan(body, api, facts)) return 0;
  if (facts.model_range.end() > body.size() || facts.insert_at > body.size()) std::abort();
  // Escapes in strings that nobody reads are the engine's to judge.
  if (body.find('\\') != std::string_view::npos) return 0;
  const auto parsed = nlohmann::json::parse(body, nullptr, false);
  if (!parsed.is_object() || parsed["model"] != facts.model.view()) std::abort();
  return 0;
}
