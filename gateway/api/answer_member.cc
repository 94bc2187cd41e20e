#include "gateway/api/answer_member.h"
#include "conf/find.h"
#include "conf/json_text.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <cstring>

namespace gateway::api {
namespace {

size_t SkipBlank(std::string_view text, size_t at) {
  while (at < text.size() && router::JsonCursor::IsSpace(text[at])) ++at;
  return at;
}

size_t FindFrom(std::string_view text, std::string_view needle, size_t from) {
  const size_t at = conf::Find(text.substr(from), needle);
  return at == std::string_view::npos ? at : from + at;
}

// Just past the string whose opening quote is at `at`, or the text's end.
size_t EndOfString(std::string_view text, size_t at) {
  const char* const begin = text.data() + at + 1;
  const char* const end = text.data() + text.size();
  for (const char* from = begin; from < end;) {
    const auto* quote = static_cast<const char*>(std::memchr(from, '"', static_cast<size_t>(end - from)));
    if (quote == nullptr) break;
    const char* escapes = quote;
    while (escapes > begin && escapes[-1] == '\\') --escapes;
    if ((quote - escapes) % 2 == 0) return static_cast<size_t>(quote + 1 - text.data());
    from = quote + 1;
  }
  return text.size();
}

// Whether the key at `at` is a member of the document, or of its member `response` or `message`.
bool IsOfAnswer(std::string_view json, size_t at) {
  struct Level {
    bool wraps;  // the document, or one of those members
    std::string_view last;
  };
  absl::InlinedVector<Level, 8> levels;
  for (size_t i = 0; i < at;) {
    switch (json[i]) {
      case '"': {
        const size_t end = EndOfString(json, i);
        if (!levels.empty() && levels.size() <= 2) levels.back().last = json.substr(i, end - i);
        i = end;
        continue;
      }
      case '{':
      case '[': {
        const bool wraps =
            json[i] == '{' &&
            (levels.empty() || (levels.size() == 1 && levels[0].wraps &&
                                (levels[0].last == "\"response\"" || levels[0].last == "\"message\"")));
        levels.push_back({wraps, {}});
        break;
      }
      case '}':
      case ']':
        if (!levels.empty()) levels.pop_back();
        break;
      default:
        break;
    }
    ++i;
  }
  return !levels.empty() && levels.back().wraps;
}

}  // namespace

std::optional<router::ByteRange> FindAnswerMember(std::string_view json, std::string_view key) {
  constexpr int kMaxCandidates = 16;  // bounds the work on a hostile answer
  int candidates = 0;
  for (size_t at = FindFrom(json, key, 0); at != std::string_view::npos;
       at = FindFrom(json, key, at + key.size())) {
    if (at == 0 || json[at - 1] != '"' || at + key.size() >= json.size() || json[at + key.size()] != '"')
      continue;
    const size_t colon = SkipBlank(json, at + key.size() + 1);
    if (colon >= json.size() || json[colon] != ':') continue;
    const size_t begin = SkipBlank(json, colon + 1);
    if (begin >= json.size() || json[begin] != '"') continue;
    if (++candidates > kMaxCandidates) break;
    if (!IsOfAnswer(json, at - 1)) continue;
    const size_t end = EndOfString(json, begin);
    if (end - begin < 2 || json[end - 1] != '"') return std::nullopt;
    return router::ByteRange{begin, end - begin};
  }
  return std::nullopt;
}

std::string_view TextInEvents(std::string_view events, std::string_view key) {
  constexpr std::string_view kData = "data:";
  for (size_t line = 0; line < events.size();) {
    const size_t end = std::min(events.find('\n', line), events.size());
    if (events.substr(line).starts_with(kData)) {
      const std::string_view data = events.substr(line + kData.size(), end - line - kData.size());
      if (const auto range = FindAnswerMember(data, key)) return range->In(data).substr(1, range->size - 2);
    }
    line = end + 1;
  }
  return {};
}

bool IsLocalPath(std::string_view raw) {
  for (const std::string_view begin :
       {"/", "\\/", "./", "../", "~/", ".\\\\", "..\\\\", "\\\\\\\\", "file:"}) {
    if (raw.starts_with(begin)) return true;
  }
  const bool letter = !raw.empty() && (raw[0] | 0x20) >= 'a' && (raw[0] | 0x20) <= 'z';
  return letter && (raw.substr(1).starts_with(":\\\\") || raw.substr(1).starts_with(":/"));
}

std::optional<router::ByteRange> PublicModelName::PathIn(std::string_view json) {
  const std::optional<router::ByteRange> range = FindAnswerMember(json, "model");
  if (!range) return std::nullopt;
  const bool local = IsLocalPath(range->In(json).substr(1, range->size - 2));
  if (state_ == State::kUnknown) state_ = local ? State::kReplace : State::kKeep;
  return local ? range : std::nullopt;
}

std::string_view PublicModelName::InDocument(std::string_view json, std::string& changed) {
  const std::optional<router::ByteRange> range = PathIn(json);
  if (!range) return json;
  changed.clear();
  changed.append(json.substr(0, range->begin)).append(conf::Quoted(name_)).append(json.substr(range->end()));
  return changed;
}

std::string_view PublicModelName::InEvents(std::string_view events, std::string& changed) {
  if (state_ == State::kKeep) return events;
  constexpr std::string_view kData = "data:";
  std::string out;
  size_t copied = 0;
  for (size_t line = 0; line < events.size();) {
    size_t end = events.find('\n', line);
    if (end == std::string_view::npos) end = events.size();
    if (events.substr(line).starts_with(kData)) {
      const size_t from = line + kData.size();
      if (const auto range = PathIn(events.substr(from, end - from))) {
        out.append(events.substr(copied, from + range->begin - copied)).append(conf::Quoted(name_));
        copied = from + range->end();
      }
    }
    line = end + 1;
  }
  if (copied == 0) return events;
  out.append(events.substr(copied));
  changed = std::move(out);
  return changed;
}

}  // namespace gateway::api
