// An answer, cut into pieces in any way: its usage and its end must be the same, and the same as the search
// of the whole text finds; what a caller must not see is blanked in place, and the document stays JSON.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/api/usage.h"
#include "gateway/api/usage_scan.h"

namespace {

using gateway::api::UsageFromJson;
using gateway::api::UsageScan;

void Require(bool holds) {
  if (!holds) std::abort();
}

UsageScan Passed(std::string& text, size_t step, bool hide_cached) {
  UsageScan scan(hide_cached);
  for (size_t at = 0; at < text.size(); at += step)
    scan.Pass(text.data() + at, std::min(step, text.size() - at));
  return scan;
}

bool Same(const UsageScan& a, const UsageScan& b) {
  return a.usage() == b.usage() && a.finish() == b.finish() && a.whole() == b.whole();
}

bool MayBlank(char was, char is) {
  return was == is || (std::string_view("0123456789.eE+-").find(was) != std::string_view::npos &&
                       (is == '0' || is == ' '));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t step = data[0] % 131 + 1u;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  UsageScan whole;
  whole.Feed(text);

  std::string shown = text;
  Require(Same(whole, Passed(shown, step, false)) && shown == text);

  std::string hidden = text;
  std::string hidden_whole = text;
  Require(Same(whole, Passed(hidden, step, true)));
  Require(Same(whole, Passed(hidden_whole, text.size() + 1, true)));
  Require(hidden.size() == text.size() && hidden_whole.size() == text.size());
  // Messages count cached tokens beside the others. Their usage is written anew where it comes in one piece, and
  // hidden in place where a piece ends within it. All else is the same however it comes.
  if (text.find("cache_") == std::string::npos && text.find("input_tokens") == std::string::npos) {
    Require(hidden == hidden_whole);
    Require(std::equal(text.begin(), text.end(), hidden.begin(), hidden.end(), MayBlank));
  }

  // To that parser a zero byte is the end.
  if (text.find('\0') != std::string::npos || !nlohmann::json::accept(text)) return 0;
  Require(nlohmann::json::accept(hidden) && nlohmann::json::accept(hidden_whole));
  const auto found = UsageFromJson(text);
  if (found) {
    Require(whole.usage() == found);
  } else if (whole.usage()) {  // one that stands behind it cannot be read
    const size_t first = text.find("\"usage\"");
    Require(first != std::string::npos && text.find("\"usage\"", first + 1) != std::string::npos);
  }
  return 0;
}
