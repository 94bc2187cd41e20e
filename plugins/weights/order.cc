#include "plugins/weights/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/net/url.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/listing.h"

namespace plugins::weights {
namespace {

using nlohmann::json;

template <class... Fns>
struct Overloaded : Fns... {
  using Fns::operator()...;
};

json SourceAsJson(const Source& source) {
  return std::visit(
      Overloaded{[](const HttpSource& s) {
                   return json{{"http", {{"url", s.url}, {"listing", s.listing}, {"token", s.token}}}};
                 },
                 [](const HuggingFaceSource& s) {
                   return json{{"huggingface",
                                {{"url", s.url},
                                 {"repository", s.repository},
                                 {"revision", s.revision},
                                 {"token", s.token},
                                 {"include", s.include}}}};
                 },
                 [](const OciSource& s) {
                   return json{{"oci",
                                {{"registry", s.registry},
                                 {"repository", s.repository},
                                 {"username", s.username},
                                 {"password", s.password}}}};
                 },
                 [](const S3Source& s) {
                   return json{{"s3",
                                {{"endpoint", s.endpoint},
                                 {"bucket", s.bucket},
                                 {"prefix", s.prefix},
                                 {"listing", s.listing},
                                 {"region", s.region},
                                 {"access_key", s.access_key},
                                 {"secret_key", s.secret_key},
                                 {"session_token", s.session_token}}}};
                 },
                 [](const PathSource& s) { return json{{"path", {{"path", s.path}}}}; }},
      source);
}

// Throws where a field has another type.
Source SourceOf(const json& in) {
  const auto text = [](const json& of, const char* key) { return of.at(key).get<std::string>(); };
  if (in.contains("http")) {
    const json& of = in["http"];
    return HttpSource{text(of, "url"), text(of, "listing"), text(of, "token")};
  }
  if (in.contains("huggingface")) {
    const json& of = in["huggingface"];
    return HuggingFaceSource{text(of, "url"), text(of, "repository"), text(of, "revision"), text(of, "token"),
                             of.at("include").get<std::vector<std::string>>()};
  }
  if (in.contains("oci")) {
    const json& of = in["oci"];
    return OciSource{text(of, "registry"), text(of, "repository"), text(of, "username"),
                     text(of, "password")};
  }
  if (in.contains("s3")) {
    const json& of = in["s3"];
    return S3Source{text(of, "endpoint"),   text(of, "bucket"),       text(of, "prefix"),
                    text(of, "listing"),    text(of, "region"),       text(of, "access_key"),
                    text(of, "secret_key"), text(of, "session_token")};
  }
  return PathSource{text(in.at("path"), "path")};
}

bool IsKey(std::string_view key) {
  constexpr size_t kLongestKey = 128;
  return key.size() <= kLongestKey && std::ranges::all_of(key, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

}  // namespace

std::string InWords(const Source& source) {
  return std::visit(
      Overloaded{[](const HttpSource& s) { return s.url; },
                 [](const HuggingFaceSource& s) {
                   return fmt::format("{}/{} at {}", s.url, s.repository, s.revision);
                 },
                 [](const OciSource& s) { return fmt::format("{}/{}", s.registry, s.repository); },
                 [](const S3Source& s) { return fmt::format("{}/{}/{}", s.endpoint, s.bucket, s.prefix); },
                 [](const PathSource& s) { return s.path; }},
      source);
}

std::string NameOfOneFile(const Source& source) {
  if (const auto* const path = std::get_if<PathSource>(&source))
    return path->path.substr(path->path.find_last_of('/') + 1);
  const auto* const http = std::get_if<HttpSource>(&source);
  if (http == nullptr || !http->listing.empty()) return {};
  const absl::StatusOr<gateway::net::Url> url = gateway::net::ParseUrl(http->url);
  std::string name = url.ok() ? url->path.substr(url->path.rfind('/') + 1) : std::string();
  return PathDefect(name).empty() ? name : "weights";
}

std::string WeightsFolder(std::string_view store, std::string_view digest) {
  return fmt::format("{}/sha256-{}", store, HexOfDigest(digest).value_or(std::string()));
}

std::string CacheFolder(std::string_view store, std::string_view key) {
  return fmt::format("{}/cache-{}", store, key);
}

std::string WriteOrder(const WeightsOrder& order) {
  json also = json::array();
  for (const AlsoOrdered& one : order.also)
    also.push_back({{"digest", one.digest},
                    {"name", one.name},
                    {"source", SourceAsJson(one.source)},
                    {"neighbours", one.neighbours}});
  return json{{"store", order.store},
              {"size", order.size},
              {"digest", order.digest},
              {"model", order.model},
              {"pins", order.pins},
              {"ca", order.ca},
              {"connections", order.connections},
              {"cache", order.cache},
              {"source", SourceAsJson(order.source)},
              {"neighbours", order.neighbours},
              {"access", {{"token", order.access.token}, {"ca", order.access.ca}}},
              {"also", std::move(also)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<WeightsOrder> ReadOrder(std::string_view text) {
  const json in = conf::ParseJson(text);
  WeightsOrder order;
  // The text may hold secrets: no message repeats it.
  try {
    order.store = in.at("store").get<std::string>();
    order.size = in.at("size").get<uint64_t>();
    order.digest = in.at("digest").get<std::string>();
    order.model = in.at("model").get<std::string>();
    order.pins = in.at("pins").get<std::vector<std::string>>();
    order.ca = in.at("ca").get<std::string>();
    order.connections = std::clamp(in.at("connections").get<uint32_t>(), 1U, 64U);
    order.cache = in.at("cache").get<std::string>();
    order.source = SourceOf(in.at("source"));
    order.neighbours = in.value("neighbours", std::vector<std::string>());
    if (const auto access = in.find("access"); access != in.end())
      order.access = {access->at("token").get<std::string>(), access->at("ca").get<std::string>()};
    for (const json& one : in.value("also", json::array()))
      order.also.push_back({one.at("digest").get<std::string>(), one.at("name").get<std::string>(),
                            SourceOf(one.at("source")), one.value("neighbours", std::vector<std::string>())});
  } catch (const json::exception&) {
    return absl::InvalidArgumentError(
        "the order for weights is not one that this version of tidegate writes");
  }
  if (!order.store.starts_with('/'))
    return absl::InvalidArgumentError(
        fmt::format("the store of weights \"{}\" must be an absolute path", order.store));
  if (!HexOfDigest(order.digest))
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is not a digest; it must be sha256: and 64 hex digits", order.digest));
  for (const AlsoOrdered& also : order.also) {
    if (!HexOfDigest(also.digest))
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" is not a digest; it must be sha256: and 64 hex digits", also.digest));
  }
  if (!IsKey(order.cache)) return absl::InvalidArgumentError("the key of the compile cache is malformed");
  return order;
}

}  // namespace plugins::weights
