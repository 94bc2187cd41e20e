#include "gateway/config/weights.h"

#include <absl/strings/str_replace.h>
#include <fmt/format.h>

#include <algorithm>

#include "conf/reader.h"
#include "conf/text.h"
#include "gateway/config/bucket_name.h"
#include "gateway/config/node_url.h"
#include "gateway/net/url.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/listing.h"

namespace gateway::config {
namespace {

struct NodePath {
  std::string operator()(const std::string& path) const {
    return path.starts_with('/') && path.size() > 1 ? "" : "must be an absolute path on the nodes";
  }
};

struct WeightsDigest {
  std::string operator()(const std::string& text) const {
    return plugins::weights::HexOfDigest(text)
               ? ""
               : "must be sha256: and 64 lower-case hex digits; tidegate weights digest FOLDER computes it";
  }
};

struct PathBelow {
  std::string operator()(const std::string& path) const { return plugins::weights::PathDefect(path); }
};

// "org/model": what stands in a URL's path.
struct RepositoryName {
  std::string operator()(const std::string& name) const {
    const std::string defect = plugins::weights::PathDefect(name);
    return defect.empty() ? "" : "must be a name such as org/model";
  }
};

struct WebUrl {
  std::string operator()(const Url& url) const {
    return url.scheme == "http" || url.scheme == "https" ? "" : "must begin with http:// or https://";
  }
};

struct FetchTime {
  std::string operator()(conf::Duration length) const {
    return length >= std::chrono::seconds(10) && length <= std::chrono::hours(48) ? ""
                                                                                  : "must be from 10s to 2d";
  }
};

constexpr uint32_t kMostNodes = 100'000;

}  // namespace

static void Bind(conf::Object& o, HttpWeights& http) {
  o.Required("url", http.url, WebUrl());
  o.Optional("listing", http.listing, PathBelow());
  o.Optional("token", http.token);
}

static void Bind(conf::Object& o, HuggingFaceWeights& hub) {
  o.Optional("url", hub.url, WebUrl());
  o.Required("repository", hub.repository, RepositoryName());
  o.Required("revision", hub.revision, conf::NotEmpty());
  o.Optional("token", hub.token);
  o.Optional("include", conf::OneOrMany(hub.include), conf::NotEmpty());
}

static void Bind(conf::Object& o, OciWeights& oci) {
  o.Required("registry", oci.registry, WebUrl());
  o.Required("repository", oci.repository, RepositoryName());
  o.Optional("username", oci.username, conf::NotEmpty());
  o.Optional("password", oci.password);
  if (o.Has("username") != o.Has("password"))
    o.Error("username and password belong together; give both, or none for a public repository");
}

static void Bind(conf::Object& o, S3Weights& s3) {
  o.Required("endpoint", s3.endpoint, WebUrl());
  o.Required("bucket", s3.bucket, BucketName());
  o.Optional("prefix", s3.prefix, PathBelow());
  o.Optional("listing", s3.listing, PathBelow());
  o.Optional("region", s3.region, conf::NotEmpty());
  o.Optional("access_key", s3.access_key);
  o.Optional("secret_key", s3.secret_key);
  o.Optional("session_token", s3.session_token);
  if (o.Has("access_key") != o.Has("secret_key"))
    o.Error("access_key and secret_key belong together; give both, or none for a public bucket");
}

static void Bind(conf::Object& o, PrefetchTime& time) {
  std::string cron = time.cron.text();
  o.Required("cron", cron, conf::NotEmpty());
  o.Optional("timezone", time.timezone, conf::NotEmpty());
  std::string why;
  if (const auto parsed = cron.empty() ? std::nullopt : scheduler::autoscale::Cron::Parse(cron, why)) {
    time.cron = *parsed;
  } else if (!why.empty()) {
    o.Error(why, "cron");
  }
  if (!absl::LoadTimeZone(time.timezone, &time.zone)) {
    o.Error(fmt::format("unknown time zone \"{}\": must be a name such as Asia/Shanghai", time.timezone),
            "timezone");
  }
}

static void Bind(conf::Object& o, Prefetch& prefetch) {
  o.Optional("nodes", prefetch.nodes, conf::Range{1U, kMostNodes});
  o.Optional("at", conf::OneOrMany(prefetch.at));
  o.Optional("on_demand", prefetch.on_demand);
  o.Optional("forecast", prefetch.forecast);
  if (o.reading() && prefetch.at.empty() && !prefetch.on_demand && !prefetch.forecast)
    o.Error("does not say when; give at, with times, or on_demand: true, or forecast: true");
}

static void Bind(conf::Object& o, CompileCache& cache) {
  o.Optional("version", cache.version, conf::NotEmpty());
}

// Where they come from, and their digest.
static void BindSource(conf::Object& o, Weights& weights) {
  o.Optional("http", weights.http);
  o.Optional("huggingface", weights.huggingface);
  o.Optional("oci", weights.oci);
  o.Optional("s3", weights.s3);
  o.Optional("path", weights.path, NodePath());
  o.Required("digest", weights.digest, WeightsDigest());
  o.Optional("pinned", weights.pinned);
  if (!o.reading()) return;
  constexpr std::string_view kSources[] = {"http", "huggingface", "oci", "s3", "path"};
  const auto given = std::ranges::count_if(kSources, [&](std::string_view key) { return o.Has(key); });
  if (given != 1) {
    o.Error(given == 0 ? "names no source; give one of http, huggingface, oci, s3 and path"
                       : "names several sources; keep one of http, huggingface, oci, s3 and path");
  }
}

void Bind(conf::Object& o, Weights& weights) {
  BindSource(o, weights);
  o.Optional("timeout", weights.timeout, FetchTime());
  o.Optional("prefetch", weights.prefetch);
  o.Optional("compile_cache", weights.compile_cache);
}

void Bind(conf::Object& o, DataSet& data) {
  o.Required("name", data.name, ValidName());
  BindSource(o, data.from);
  o.Optional("tenants", conf::OneOrMany(data.tenants), conf::NotEmpty());
}

bool MayName(const DataSet& data, std::string_view tenant) {
  return data.tenants.empty() || std::ranges::any_of(data.tenants, [&](const std::string& glob) {
           return !tenant.empty() && GlobMatches(glob, tenant);
         });
}

static void Bind(conf::Object& o, NeighbourServers& neighbours) {
  o.Required("url", neighbours.url, conf::NotEmpty());
  o.Required("token", neighbours.token);
  o.Optional("ca", neighbours.ca, NodePath());
  o.Optional("most", neighbours.most, conf::Range{1U, 16U});
  if (neighbours.url.empty()) return;
  const absl::StatusOr<net::Url> url = net::ParseUrl(
      absl::StrReplaceAll(neighbours.url, {{conf::Abseil(kNodeInUrl), "node"}, {"{address}", "192.0.2.1"}}));
  if (!url.ok() || !url->query.empty())
    o.Error("must be an http or https URL, such as http://{address}:9470", "url");
}

void Bind(conf::Object& o, WeightsStore& store) {
  o.Required("store", store.store, NodePath());
  o.Optional("size", conf::Size(store.size), conf::Range{uint64_t{1} << 20, uint64_t{1} << 60});
  o.Optional("connections", store.connections, conf::Range{1U, 64U});
  o.Optional("ca", store.ca, NodePath());
  o.Optional("neighbours", store.neighbours);
  o.Optional("program", store.program, NodePath());
  o.Optional("image", store.image, conf::NotEmpty());
  o.Optional("claim", store.claim, conf::NotEmpty());
}

plugins::weights::Source SourceOf(const Weights& weights) {
  const auto text = [](const conf::Secret& secret) { return std::string(secret.Reveal()); };
  if (weights.http) {
    return plugins::weights::HttpSource{ToString(weights.http->url), weights.http->listing,
                                        text(weights.http->token)};
  }
  if (weights.huggingface) {
    const HuggingFaceWeights& hub = *weights.huggingface;
    return plugins::weights::HuggingFaceSource{ToString(hub.url), hub.repository, hub.revision,
                                               text(hub.token), hub.include};
  }
  if (weights.oci) {
    const OciWeights& oci = *weights.oci;
    return plugins::weights::OciSource{ToString(oci.registry), oci.repository, oci.username,
                                       text(oci.password)};
  }
  if (weights.s3) {
    const S3Weights& s3 = *weights.s3;
    return plugins::weights::S3Source{ToString(s3.endpoint),
                                      s3.bucket,
                                      s3.prefix,
                                      s3.listing,
                                      s3.region,
                                      text(s3.access_key),
                                      text(s3.secret_key),
                                      text(s3.session_token)};
  }
  return plugins::weights::PathSource{weights.path};
}

std::string CacheKeyOf(const Weights& weights, std::string_view engine, std::string_view image,
                       std::string_view kind) {
  if (!weights.compile_cache) return {};
  const std::string& version = weights.compile_cache->version;
  // Names of versions, images and devices have characters that folders' names should not have.
  constexpr size_t kDigits = 24;
  const std::string all = fmt::format("{}\n{}\n{}\n{}", version.empty() ? image : std::string_view(version),
                                      engine, weights.digest, kind);
  return fmt::format("{}-{}", engine, plugins::weights::Sha256Hex(all).substr(0, kDigits));
}

}  // namespace gateway::config
