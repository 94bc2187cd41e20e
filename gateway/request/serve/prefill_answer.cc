#include "gateway/request/serve/prefill_answer.h"

#include <string>

#include "router/facts/json_index.h"

namespace gateway {
namespace {

using router::ByteRange;
using router::JsonError;

// Ranges of the members' values; empty for missing members.
struct Members {
  ByteRange params;
  ByteRange usage;
};

std::optional<Members> FindMembers(std::string_view body) {
  router::JsonIndex index;
  if (index.Build(body) != JsonError::kNone) return std::nullopt;
  router::JsonCursor cursor(body, index.positions());
  Members found;
  if (!cursor.Take('{')) return std::nullopt;
  if (!cursor.Take('}')) {
    do {
      ByteRange key;
      if (!cursor.TakeKey(key)) return std::nullopt;
      const size_t begin = cursor.offset();
      const bool object = cursor.Peek() == '{';
      router::JsonVisitor nobody;
      if (cursor.SkipValue(1, nobody) != JsonError::kNone) return std::nullopt;
      const ByteRange value{begin, cursor.TrimmedEnd() - begin};
      if (object && key.In(body) == "kv_transfer_params") found.params = value;
      if (object && key.In(body) == "usage") found.usage = value;
    } while (cursor.Take(','));
    if (!cursor.Take('}')) return std::nullopt;
  }
  if (!cursor.AtEnd()) return std::nullopt;
  return found;
}

}  // namespace

std::optional<PrefillAnswer> ReadPrefillAnswer(std::string_view body) {
  const std::optional<Members> found = FindMembers(body);
  if (!found) return std::nullopt;
  PrefillAnswer answer;
  answer.params = found->params.In(body);
  if (!found->usage.empty()) {
    // Only the usage is passed on: the parameters that follow it may be larger than what UsageFromJson searches.
    const std::string alone = "{\"usage\":" + std::string(found->usage.In(body)) + "}";
    answer.usage = api::UsageFromJson(alone);
  }
  return answer;
}

}  // namespace gateway
