#include "gateway/request/parameter_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "conf/json_text.h"
#include "conf/text.h"

namespace gateway {
namespace {

using router::BodyMember;
using router::JsonCursor;

// Members whose strings are addresses of media, in the APIs of chat, responses and messages.
constexpr std::array<std::string_view, 6> kUrlKeys = {"url",       "image_url", "audio_url",
                                                      "video_url", "file_url",  "input_image"};

constexpr size_t kShownName = 64;

std::string Decoded(std::string_view raw) {
  std::string text;
  if (raw.find('\\') == std::string_view::npos || !router::UnescapeJson(raw, text)) text = raw;
  return text;
}

struct MediaVisitor : router::JsonVisitor {
  explicit MediaVisitor(const config::Parameters& policy_of) : policy(policy_of) {}

  void Key(std::string_view raw) { of_media = std::ranges::find(kUrlKeys, Decoded(raw)) != kUrlKeys.end(); }
  void String(std::string_view raw) { allowed = allowed && (!of_media || MayFetch(Decoded(raw), policy)); }

  const config::Parameters& policy;
  bool of_media = false;
  bool allowed = true;
};

// The first tool type that the policy does not allow; nothing if it allows all.
std::optional<std::string> DeniedTool(JsonCursor cursor, std::string_view body,
                                      const config::Parameters& policy) {
  constexpr std::string_view kUsual = "function";
  router::JsonVisitor nobody;
  if (!cursor.Take('[') || cursor.Take(']')) return std::nullopt;
  do {
    if (!cursor.Take('{')) {
      if (cursor.SkipValue(2, nobody) != router::JsonError::kNone) return std::nullopt;
      continue;
    }
    bool typed = false;
    bool more = !cursor.Take('}');
    while (more) {
      router::ByteRange key;
      if (!cursor.TakeKey(key)) return std::nullopt;
      if (cursor.Peek() == '"' && Decoded(key.In(body)) == "type") {
        const std::string_view quoted = cursor.TakeToken().In(body);
        std::string type = Decoded(quoted.substr(1, quoted.size() - 2));
        if (!policy.AllowsTool(type)) return type;
        typed = true;
      } else if (cursor.SkipValue(3, nobody) != router::JsonError::kNone) {
        return std::nullopt;
      }
      more = cursor.Take(',');
      if (!more && !cursor.Take('}')) return std::nullopt;
    }
    if (!typed && !policy.AllowsTool(kUsual)) return std::string(kUsual);
  } while (cursor.Take(','));
  return std::nullopt;
}

api::ApiError Refusal(std::string_view name, std::string_view why) {
  return api::Make(api::Code::kUnsupportedParameter, fmt::format("{} {}", name, why), std::string(name));
}

}  // namespace

bool MayFetch(std::string_view url, const config::Parameters& policy) {
  constexpr size_t kLongestBegin = 300;
  const std::string_view begin = url.substr(0, kLongestBegin);
  if (begin.find(':') == std::string_view::npos || begin.starts_with("data:")) return true;
  const size_t scheme = begin.starts_with("https://") ? 8 : begin.starts_with("http://") ? 7 : 0;
  if (scheme == 0) return false;
  const std::string_view rest = begin.substr(scheme);
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  std::string host(
      authority.substr(0, authority.starts_with('[') ? authority.find(']') + 1 : authority.find(':')));
  for (char& c : host) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
    if (!plain && !(host.front() == '[' && (c == ':' || c == '[' || c == ']'))) return false;
  }
  const std::string_view port = authority.substr(host.size());
  const bool has_port = port.empty() || (port.front() == ':' && conf::ReadNumber<uint16_t>(port.substr(1)));
  return !host.empty() && has_port && policy.AllowsMediaOf(host);
}

std::optional<api::ApiError> CheckParameters(const router::FactsScanner& scanner, std::string_view body,
                                             Policies policies) {
  const std::vector<BodyMember> members = scanner.Members(body);
  for (const config::Parameters* policy : policies) {
    for (const BodyMember& member : members) {
      if (!policy->Allows(member.name))
        return Refusal(member.name.substr(0, kShownName), "is not allowed for this tenant or model");
      if (policy->tools && member.name == "tools") {
        if (const auto type = DeniedTool(scanner.CursorOf(body, member.value), body, *policy)) {
          return Refusal("tools", fmt::format("of the type \"{}\" are not allowed for this tenant or model",
                                              type->substr(0, 64)));
        }
      }
      if (!policy->media_hosts) continue;
      MediaVisitor visitor(*policy);
      visitor.of_media = std::ranges::find(kUrlKeys, member.name) != kUrlKeys.end();
      JsonCursor cursor = scanner.CursorOf(body, member.value);
      if (cursor.SkipValue(1, visitor) == router::JsonError::kNone && !visitor.allowed) {
        return Refusal(
            member.name.substr(0, kShownName),
            "names media on a host that is not allowed for this tenant or model; send the media as "
            "data URLs");
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> ForceParameters(const router::FactsScanner& scanner, std::string_view body,
                                           size_t insert_at, Policies policies) {
  std::vector<const config::ForcedParameter*> forced;
  for (const config::Parameters* policy : policies) {
    for (const config::ForcedParameter& one : policy->force) {
      if (std::ranges::none_of(forced, [&](const auto* other) { return other->name == one.name; }))
        forced.push_back(&one);
    }
  }
  if (forced.empty()) return std::nullopt;
  const std::vector<BodyMember> members = scanner.Members(body);
  std::string out(body.substr(0, insert_at));
  for (const config::ForcedParameter* one : forced) {
    if (std::ranges::find(members, one->name, &BodyMember::name) == members.end())
      out += fmt::format("{}:{},", conf::Quoted(one->name), one->json);
  }
  size_t copied = insert_at;
  for (const BodyMember& member : members) {
    const auto one = std::ranges::find_if(forced, [&](const auto* f) { return f->name == member.name; });
    if (one == forced.end()) continue;
    out.append(body.substr(copied, member.value.begin - copied)).append((*one)->json);
    copied = member.value.end();
  }
  return out.append(body.substr(copied));
}

}  // namespace gateway
