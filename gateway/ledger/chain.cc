#include "gateway/ledger/chain.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "conf/hex.h"

namespace gateway::ledger {
namespace {

constexpr std::string_view kLinkKey = ",\"chain\":\"";
constexpr std::string_view kLineEnd = "\"}";
constexpr size_t kSuffix = kLinkKey.size() + 64 + kLineEnd.size();

template <class Number>
bool TakeNumber(std::string_view* rest, std::string_view prefix, Number* value) {
  if (rest->substr(0, prefix.size()) != prefix) return false;
  rest->remove_prefix(prefix.size());
  const auto [end, error] = std::from_chars(rest->data(), rest->data() + rest->size(), *value);
  if (error != std::errc{}) return false;
  rest->remove_prefix(static_cast<size_t>(end - rest->data()));
  return true;
}

// The position just after `,"KEY":`, or npos. The first match is the ledger's own field: all texts are escaped, so
// no value contains a quote followed by a colon.
size_t FindValue(std::string_view body, std::string_view key) {
  for (size_t at = body.find(key); at != std::string_view::npos; at = body.find(key, at + 1)) {
    const size_t after = at + key.size();
    if (at >= 2 && body[at - 1] == '"' && body[at - 2] == ',' && body.substr(after, 2) == "\":")
      return after + 2;
  }
  return std::string_view::npos;
}

}  // namespace

Digest Link(const Digest& previous, std::string_view body) {
  return plugins::auth::Sha256({reinterpret_cast<const char*>(previous.data()), previous.size()}, body);
}

Digest FinishLine(std::string* out, size_t begin, const Digest& previous) {
  const Digest link = Link(previous, std::string_view(*out).substr(begin));
  std::array<char, kSuffix> suffix;
  char* end = std::copy(kLinkKey.begin(), kLinkKey.end(), suffix.data());
  conf::WriteHex(link, end);
  std::copy(kLineEnd.begin(), kLineEnd.end(), end + 2 * link.size());
  out->append(suffix.data(), suffix.size()).push_back('\n');
  return link;
}

std::optional<LineParts> SplitLine(std::string_view line) {
  if (line.size() <= kSuffix) return std::nullopt;
  LineParts parts;
  parts.body = line.substr(0, line.size() - kSuffix);
  const std::string_view suffix = line.substr(parts.body.size());
  if (suffix.substr(0, kLinkKey.size()) != kLinkKey || suffix.substr(kSuffix - kLineEnd.size()) != kLineEnd ||
      !conf::ParseHex(suffix.substr(kLinkKey.size(), 64), parts.link)) {
    return std::nullopt;
  }
  std::string_view rest = parts.body;
  if (!TakeNumber(&rest, "{\"seq\":", &parts.seq) || !TakeNumber(&rest, ",\"time_us\":", &parts.time_us)) {
    return std::nullopt;
  }
  constexpr std::string_view kKindKey = ",\"kind\":\"";
  if (rest.substr(0, kKindKey.size()) != kKindKey) return std::nullopt;
  rest.remove_prefix(kKindKey.size());
  const size_t quote = rest.find('"');
  if (quote == std::string_view::npos) return std::nullopt;
  parts.kind = rest.substr(0, quote);
  return parts;
}

std::optional<uint64_t> FindUint(std::string_view body, std::string_view key) {
  const size_t at = FindValue(body, key);
  if (at == std::string_view::npos) return std::nullopt;
  uint64_t value = 0;
  const auto error = std::from_chars(body.data() + at, body.data() + body.size(), value).ec;
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

std::optional<std::string_view> FindText(std::string_view body, std::string_view key) {
  const size_t at = FindValue(body, key);
  if (at == std::string_view::npos || at >= body.size() || body[at] != '"') return std::nullopt;
  const size_t end = body.find('"', at + 1);
  if (end == std::string_view::npos) return std::nullopt;
  return body.substr(at + 1, end - at - 1);
}

}  // namespace gateway::ledger
