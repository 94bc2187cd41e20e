#include "gateway/console/console.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/text.h"
#include "gateway/console/assets.h"

namespace gateway::console {
namespace {

constexpr std::string_view kAssets = "/assets/";
constexpr std::string_view kDocument = "/index.html";

// Scripts and styles come from here alone, and none stand in the document: what an attacker gets into a page
// as text stays text. Images of the playground are shown from memory.
constexpr std::string_view kContentSecurityPolicy =
    "default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; object-src 'none'; "
    "form-action 'self'; frame-ancestors 'none'";

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Calls `is` with the trimmed members of a header's list until it says yes.
template <class Is>
bool AnyOf(std::string_view list, Is is) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (is(Trim(list.substr(0, comma)))) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

// A quality of 0 refuses a coding: q=0, q=0.0, …
bool IsRefused(std::string_view parameters) {
  const size_t at = parameters.find("q=");
  if (at == std::string_view::npos) return false;
  const std::string_view quality = parameters.substr(at + 2);
  return quality.starts_with('0') && quality.find_first_of("123456789") == std::string_view::npos;
}

bool Accepts(std::string_view accept_encoding, std::string_view coding) {
  return AnyOf(accept_encoding, [&](std::string_view member) {
    const size_t semicolon = member.find(';');
    if (!conf::EqualsIgnoreCase(Trim(member.substr(0, semicolon)), coding)) return false;
    return semicolon == std::string_view::npos || !IsRefused(member.substr(semicolon + 1));
  });
}

bool Matches(std::string_view if_none_match, std::string_view etag) {
  return AnyOf(if_none_match, [&](std::string_view member) {
    if (member.starts_with("W/")) member.remove_prefix(2);
    return member == "*" || member == etag;
  });
}

const Asset* FindAsset(std::string_view path) {
  const auto assets = Assets();
  const auto found = std::ranges::find(assets, path, &Asset::path);
  return found == assets.end() ? nullptr : &*found;
}

bool IsPage(std::string_view path) {
  if (!path.starts_with('/')) return false;
  path.remove_prefix(1);
  const auto names = PageNames();
  return path.empty() || std::ranges::find(names, path.substr(0, path.find('/'))) != names.end();
}

}  // namespace

std::optional<admin::WebPage> Find(std::string_view path, std::string_view accept_encoding,
                                   std::string_view if_none_match) {
  const bool is_asset = path.starts_with(kAssets);
  if (!is_asset && !IsPage(path)) return std::nullopt;
  const Asset* asset = FindAsset(is_asset ? path : kDocument);
  if (asset == nullptr) return std::nullopt;
  std::string_view coding;
  std::string_view body = asset->plain;
  if (!asset->brotli.empty() && Accepts(accept_encoding, "br")) {
    coding = "br", body = asset->brotli;
  } else if (!asset->gzip.empty() && Accepts(accept_encoding, "gzip")) {
    coding = "gzip", body = asset->gzip;
  }
  const std::string etag = fmt::format("\"{}{}{}\"", asset->hash, coding.empty() ? "" : "-", coding);
  admin::WebPage page;
  page.headers = {
      {"content-type", std::string(asset->content_type)},
      {"etag", etag},
      {"vary", "accept-encoding"},
      // The name of an asset changes with its content.
      {"cache-control", is_asset ? "public, max-age=31536000, immutable" : "no-cache"},
      {"content-security-policy", std::string(kContentSecurityPolicy)},
      {"x-content-type-options", "nosniff"},
      {"x-frame-options", "DENY"},
      {"referrer-policy", "no-referrer"},
      {"cross-origin-opener-policy", "same-origin"},
      {"permissions-policy", "camera=(), geolocation=(), microphone=()"},
  };
  if (Matches(if_none_match, etag)) {
    page.status = 304;
    return page;
  }
  if (!coding.empty()) page.headers.emplace_back("content-encoding", coding);
  page.body = body;
  return page;
}

}  // namespace gateway::console
