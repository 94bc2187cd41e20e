// The facts scan must read any bytes safely, and what it accepts must be JSON to a full parser as well.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "conf/json_parse.h"
#include "router/facts/body_facts.h"

namespace {

bool HasHugeNumber(std::string_view body) {
  size_t digits = 0;
  for (char c : body) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && digits > 0 && (c == 'e' || c == 'E')) return true;
    digits = digit ? digits + 1 : 0;
    if (digits > 300) return true;
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static router::FactsScanner scanner;
  if (size == 0) return 0;
  const auto api = static_cast<router::Api>(data[0] % router::kApiCount);
  const std::string_view body(reinterpret_cast<const char*>(data + 1), size - 1);
  router::BodyFacts facts;
  if (scanner.Scan(body, api, facts)) return 0;
  if (facts.model_range.end() > body.size() || facts.insert_at > body.size()) std::abort();
  // Left to the engine: escapes in strings that nobody reads. Beyond nlohmann's doubles: 1e999, or 400
  // digits.
  if (body.find('\\') != std::string_view::npos || HasHugeNumber(body)) return 0;
  const auto parsed = conf::ParseJson(body);
  if (!parsed.is_object() || !parsed.contains("model")) std::abort();
  return 0;
}
