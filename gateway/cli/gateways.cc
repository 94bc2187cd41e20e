#include "gateway/cli/gateways.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/net/files.h"

namespace gateway::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostGateways = 1 << 20;

std::string Text(const ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

absl::Status NotRead(const std::string& path, std::string_view why) {
  return absl::FailedPreconditionError(
      conf::Abseil(fmt::format("{}: {}; correct it, or remove it and sign in again", path, why)));
}

}  // namespace

const KnownGateway* KnownGateways::Find(const std::string& url) const {
  const auto found = std::ranges::find(all, url, &KnownGateway::url);
  return found == all.end() ? nullptr : &*found;
}

void KnownGateways::Put(KnownGateway gateway) {
  current = gateway.url;
  std::erase_if(all, [&](const KnownGateway& one) { return one.url == gateway.url; });
  all.push_back(std::move(gateway));
}

void KnownGateways::Remove(const std::string& url) {
  std::erase_if(all, [&](const KnownGateway& one) { return one.url == url; });
  if (Current() == nullptr) current = all.size() == 1 ? all.front().url : "";
}

std::string GatewaysPath() {
  // The specification of base directories passes over a relative path.
  const char* const base = std::getenv("XDG_CONFIG_HOME");
  if (base != nullptr && base[0] == '/') return fmt::format("{}/tidegate/gateways.json", base);
  const char* const home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return {};
  return fmt::format("{}/.config/tidegate/gateways.json", home);
}

absl::StatusOr<KnownGateways> LoadGateways(const std::string& path) {
  KnownGateways gateways;
  struct stat info{};
  if (path.empty() || stat(path.c_str(), &info) != 0) return gateways;
  if ((info.st_mode & 077) != 0) {
    return NotRead(path, fmt::format("other users may read or write it (mode {:04o}); run chmod 600 on it",
                                     info.st_mode & 07777));
  }
  const absl::StatusOr<std::string> text = net::ReadFile(path, kMostGateways);
  if (!text.ok()) return text.status();
  const ordered_json json = conf::ParseOrderedJson(*text);
  const auto list = json.is_object() ? json.find("gateways") : json.end();
  if (!json.is_object() || list == json.end() || !list->is_array())
    return NotRead(path, "it is not a list of gateways");
  gateways.current = Text(json, "current");
  for (const ordered_json& one : *list) {
    if (!one.is_object()) return NotRead(path, "an entry of gateways is not an object");
    KnownGateway gateway{.url = Text(one, "url"),
                         .token = conf::Secret("", Text(one, "token")),
                         .actor = Text(one, "actor"),
                         .ca = Text(one, "ca"),
                         .server_name = Text(one, "server_name")};
    if (const auto ends = conf::ParseTime(Text(one, "ends"))) gateway.ends = *ends;
    if (gateway.url.empty() || gateway.token.empty())
      return NotRead(path, "an entry of gateways has no url or no token");
    gateways.all.push_back(std::move(gateway));
  }
  return gateways;
}

absl::Status SaveGateways(const std::string& path, const KnownGateways& gateways) {
  if (path.empty()) {
    return absl::FailedPreconditionError("a session needs a folder: set XDG_CONFIG_HOME or HOME");
  }
  ordered_json json = {{"current", gateways.current}, {"gateways", ordered_json::array()}};
  for (const KnownGateway& gateway : gateways.all) {
    json["gateways"].push_back({{"url", gateway.url},
                                {"token", gateway.token.Reveal()},
                                {"actor", gateway.actor},
                                {"ends", conf::FormatTime(gateway.ends)},
                                {"ca", gateway.ca},
                                {"server_name", gateway.server_name}});
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (absl::Status made = net::MakeDirectories(folder, 0700); !made.ok()) return made;
  return net::ReplaceFile(path, json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n",
                          0600);
}

std::string AddressText(const net::Url& url) {
  std::string path = url.path;
  while (path.ends_with('/')) path.pop_back();
  return fmt::format("{}://{}{}", url.tls ? "https" : "http", url.Authority(), path);
}

}  // namespace gateway::cli
