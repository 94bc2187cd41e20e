#include "gateway/api/usage.h"

#include <cstring>

#include "conf/find.h"
#include "gateway/api/usage_scan.h"
#include "router/facts/json_index.h"

namespace gateway::api {
namespace {

constexpr std::string_view kUsageKey = "\"usage\"";
constexpr size_t kTail = 4096;      // where `usage` stands in a large body, when it stands at its end
constexpr size_t kNear = 512;       // ... and in most answers of any size
constexpr int kMaxCandidates = 16;  // keys of that name looked at before giving up: bounds hostile bodies
constexpr auto kNowhere = std::string_view::npos;

size_t SkipSpace(std::string_view text, size_t i) {
  while (i < text.size() && router::JsonCursor::IsSpace(text[i])) ++i;
  return i;
}

// The last occurrence of `needle`, which begins with a quote, before `end`.
size_t FindLast(std::string_view text, std::string_view needle, size_t end) {
  while (end > 0) {
    const void* hit = memrchr(text.data(), '"', end);
    if (hit == nullptr) return kNowhere;
    const auto at = static_cast<size_t>(static_cast<const char*>(hit) - text.data());
    if (text.substr(at, needle.size()) == needle) return at;
    end = at;
  }
  return kNowhere;
}

// Just past the string whose opening quote is at `i`.
size_t SkipString(std::string_view text, size_t i) {
  for (++i; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return kNowhere;
}

// Just past the value at `i`; kNowhere when the text ends within it.
size_t SkipValue(std::string_view text, size_t i) {
  size_t depth = 0;
  while (i < text.size()) {
    switch (text[i]) {
      case '"':
        i = SkipString(text, i);
        if (i == kNowhere) return kNowhere;
        if (depth == 0) return i;
        continue;
      case '{':
      case '[':
        ++depth;
        break;
      case '}':
      case ']':
        if (depth == 0) return i;
        if (--depth == 0) return i + 1;
        break;
      case ',':
        if (depth == 0) return i;
        break;
      default:
        break;
    }
    ++i;
  }
  return kNowhere;
}

// How many brackets close between `i`, which is outside of strings, and the end of the text, beyond those
// that open there: the depth of the place in its document. kNowhere when the text is no end of a document.
size_t ClosingDepth(std::string_view text, size_t i) {
  size_t open = 0;
  size_t closed = 0;
  while (i < text.size()) {
    switch (text[i]) {
      case '"':
        i = SkipString(text, i);
        if (i == kNowhere) return kNowhere;
        continue;
      case '{':
      case '[':
        ++open;
        break;
      case '}':
      case ']':
        if (open > 0) {
          --open;
        } else {
          ++closed;
        }
        break;
      default:
        break;
    }
    ++i;
  }
  return open == 0 ? closed : kNowhere;
}

bool IsEscaped(std::string_view text, size_t quote) {
  size_t backslashes = 0;
  while (backslashes < quote && text[quote - 1 - backslashes] == '\\') ++backslashes;
  return backslashes % 2 == 1;
}

// The opening quote that belongs to the closing one at `i`; kNowhere when the text begins within the string.
size_t StringStart(std::string_view text, size_t i) {
  while (i > 0) {
    --i;
    if (text[i] == '"' && !IsEscaped(text, i)) return i;
  }
  return kNowhere;
}

size_t SkipSpaceBack(std::string_view text, size_t end) {
  while (end > 0 && router::JsonCursor::IsSpace(text[end - 1])) --end;
  return end;
}

// The key whose value is the object or array that encloses the place `i`, itself outside of strings, after `skipped`
// that stand between; empty without one.
std::string_view EnclosingKey(std::string_view text, size_t i, size_t skipped = 0) {
  size_t closed = 0;
  while (i > 0) {
    --i;
    switch (text[i]) {
      case '"':
        i = StringStart(text, i);
        if (i == kNowhere) return {};
        break;
      case '}':
      case ']':
        ++closed;
        break;
      case '{':
      case '[': {
        if (closed > 0) {
          --closed;
          break;
        }
        if (skipped > 0) {
          --skipped;
          break;
        }
        size_t end = SkipSpaceBack(text, i);
        if (end == 0 || text[end - 1] != ':') return {};
        end = SkipSpaceBack(text, end - 1);
        if (end == 0 || text[end - 1] != '"') return {};
        const size_t start = StringStart(text, end - 1);
        return start == kNowhere ? std::string_view() : text.substr(start + 1, end - start - 2);
      }
      default:
        break;
    }
  }
  return {};
}

struct Member {
  size_t key = kNowhere;  // its opening quote
  size_t value = 0;
  size_t end = 0;        // just past the value
  bool gave_up = false;  // there are more keys of that name
};

enum class Wanted : uint8_t { kCounts, kMember };

// The last `usage` of the document itself: for kCounts an object, and it may also be that of the `response`
// or `message` which an event wraps, of Groq's `x_groq`, or of a choice. `first` is the first occurrence of the key, or 0.
Member FindUsage(std::string_view text, size_t first, Wanted wanted) {
  const bool counts = wanted == Wanted::kCounts;
  size_t before = text.size();
  Member of_choice;
  for (int tried = 0; before > first; ++tried) {
    if (tried == kMaxCandidates) return {.gave_up = true};
    const size_t key = FindLast(text, kUsageKey, before);
    if (key == kNowhere) break;
    before = key;
    size_t value = SkipSpace(text, key + kUsageKey.size());
    if (value >= text.size() || text[value] != ':') continue;
    value = SkipSpace(text, value + 1);
    if (value >= text.size() || (counts && text[value] != '{')) continue;
    const size_t end = SkipValue(text, value);
    if (end == kNowhere) continue;
    const size_t depth = ClosingDepth(text, end);
    if (depth == 1) return {key, value, end, false};
    if (!counts) continue;
    const bool wrapped = depth == 2 && IsUsageWrapper(EnclosingKey(text, key));
    if (wrapped) return {key, value, end, false};
    // The document's own may stand before the choices.
    if (of_choice.key == kNowhere && depth == 3 && EnclosingKey(text, key, 1) == "choices")
      of_choice = {key, value, end, false};
  }
  return of_choice;
}

// The value of the key at `key`, if it is a string: without its quotes. Empty for null and all else.
std::string_view StringValue(std::string_view text, size_t key_end) {
  size_t i = SkipSpace(text, key_end);
  if (i >= text.size() || text[i] != ':') return {};
  i = SkipSpace(text, i + 1);
  if (i >= text.size() || text[i] != '"') return {};
  const size_t end = SkipString(text, i);
  return end == kNowhere ? std::string_view() : text.substr(i + 1, end - i - 2);
}

// The string values of `key` (quotes included), the first occurrence of which is at `at`; kNowhere: none.
template <class Visit>
void ForEachValue(std::string_view text, std::string_view key, size_t at, Visit visit) {
  while (at != kNowhere) {
    text.remove_prefix(at + key.size());
    visit(StringValue(text, 0));
    at = conf::Find(text, key);
  }
}

bool HasValue(std::string_view text, std::string_view key, std::string_view wanted) {
  bool found = false;
  ForEachValue(text, key, conf::Find(text, key), [&](std::string_view value) { found |= value == wanted; });
  return found;
}

// kLength outweighs kDone.
Finish FinishFromReason(std::string_view text, std::string_view key, size_t at, std::string_view length) {
  Finish finish = Finish::kNone;
  ForEachValue(text, key, at, [&](std::string_view value) {
    if (value == length) {
      finish = Finish::kLength;
    } else if (!value.empty() && finish == Finish::kNone) {
      finish = Finish::kDone;
    }
  });
  return finish;
}

Finish FinishFromStatus(std::string_view text) {
  constexpr std::string_view kStatus = "\"status\"";
  if (HasValue(text, kStatus, "in_progress") || HasValue(text, kStatus, "queued")) return Finish::kNone;
  if (HasValue(text, "\"reason\"", "max_output_tokens")) return Finish::kLength;
  const bool ended = HasValue(text, kStatus, "completed") || HasValue(text, kStatus, "incomplete");
  return ended ? Finish::kDone : Finish::kNone;
}

}  // namespace

std::optional<Usage> UsageFromJson(std::string_view text) {
  if (text.size() > 2 * kTail) {
    const std::string_view tail = text.substr(text.size() - kTail);
    const Member member = FindUsage(tail, 0, Wanted::kCounts);
    if (member.key != kNowhere) return ReadUsage(tail.substr(member.value, member.end - member.value));
  }
  if (text.size() > 2 * kNear) {
    const size_t from = text.size() - kNear;
    if (const size_t near = conf::Find(text.substr(from), kUsageKey); near != kNowhere) {
      const Member member = FindUsage(text, from + near, Wanted::kCounts);
      if (member.key != kNowhere) return ReadUsage(text.substr(member.value, member.end - member.value));
    }
  }
  const size_t first = conf::Find(text, kUsageKey);
  if (first == kNowhere) return std::nullopt;
  if (text.size() <= 2 * kTail) {
    const Member member = FindUsage(text, first, Wanted::kCounts);
    if (member.key != kNowhere) return ReadUsage(text.substr(member.value, member.end - member.value));
    if (!member.gave_up) return std::nullopt;
  }
  UsageScan scan;  // it stands early, or the key stands often: prompts' log probabilities can be made of it
  scan.Feed(text);
  return scan.whole() ? scan.usage() : std::nullopt;
}

Finish FinishFromJson(std::string_view text) {
  constexpr std::string_view kFinish = "\"finish_reason\"";
  constexpr std::string_view kStop = "\"stop_reason\"";
  if (const size_t at = conf::Find(text, kFinish); at != kNowhere)
    return FinishFromReason(text, kFinish, at, "length");
  if (const size_t at = conf::Find(text, kStop); at != kNowhere)
    return FinishFromReason(text, kStop, at, "max_tokens");
  if (conf::Contains(text, "\"incomplete_details\"")) return FinishFromStatus(text);
  return Finish::kNone;
}

bool IsUsageOnlyChunk(std::string_view text) {
  constexpr std::string_view kChoices = "\"choices\"";
  size_t i = conf::Find(text, kChoices);
  if (i == kNowhere) return false;
  i += kChoices.size();
  for (const char expected : {':', '[', ']'}) {
    i = SkipSpace(text, i);
    if (i >= text.size() || text[i] != expected) return false;
    ++i;
  }
  return true;
}

StripPlan StripUsage(std::string_view event) {
  const size_t first = conf::Find(event, kUsageKey);
  if (first == kNowhere) return {};
  const Member member = FindUsage(event, first, Wanted::kMember);
  if (member.key == kNowhere) return {};
  if (event[member.value] == '{' && IsUsageOnlyChunk(event)) return {.drop_event = true};
  const size_t before = SkipSpaceBack(event, member.key);
  if (before > 0 && event[before - 1] == ',') {
    return {.offset = before - 1, .length = member.end - (before - 1)};
  }
  size_t end = SkipSpace(event, member.end);
  if (end < event.size() && event[end] == ',') return {.offset = member.key, .length = end + 1 - member.key};
  return {.offset = member.key, .length = member.end - member.key};
}

}  // namespace gateway::api
