// An OCI artifact: its manifest by digest, and each layer as a file.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "conf/json_parse.h"
#include "conf/shown.h"
#include "plugins/weights/credentials.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/file_plan.h"
#include "plugins/weights/s3_signature.h"

namespace plugins::weights {
namespace {

using gateway::net::Task;
using nlohmann::json;

constexpr size_t kLongestManifest = 4U << 20;  // registries take no longer ones

// The name of a layer's file, in the annotations of ORAS and CNCF's ModelPack.
std::string FileOf(const json& layer) {
  if (!layer.contains("annotations") || !layer["annotations"].is_object()) return {};
  for (const char* const key : {"org.cncf.model.filepath", "org.opencontainers.image.title"}) {
    const auto found = layer["annotations"].find(key);
    if (found != layer["annotations"].end() && found->is_string()) return found->get<std::string>();
  }
  return {};
}

}  // namespace

absl::StatusOr<FilePlan> FilesOfManifest(std::string text, const std::string& base,
                                         const std::string& where) {
  FilePlan plan;
  plan.digest = DigestOf::kManifest;
  const json manifest = conf::ParseJson(text);
  const auto wrong = [&](std::string_view why) {
    return absl::FailedPreconditionError(fmt::format("{} {}", where, why));
  };
  if (!manifest.is_object()) return wrong("is not a manifest");
  if (manifest.contains("manifests"))
    return wrong("is an index of several manifests; give the digest of one of them");
  const char* const list = manifest.contains("blobs") ? "blobs" : "layers";
  if (!manifest.contains(list) || !manifest[list].is_array()) return wrong("has no layers");
  for (const json& layer : manifest[list]) {
    try {
      PlannedFile file;
      file.path = FileOf(layer);
      const auto blob = layer.at("digest").get<std::string>();
      const std::optional<std::string> hex = HexOfDigest(blob);
      const auto type = layer.value("mediaType", std::string());
      if (!hex)
        return wrong(fmt::format("has a layer with the digest {}, which is not sha256", conf::Visible(blob)));
      if (file.path.empty()) {
        return wrong(
            fmt::format("has a layer {} that names no file (org.opencontainers.image.title or "
                        "org.cncf.model.filepath)",
                        blob));
      }
      if (type.find("tar") != std::string::npos) {
        return wrong(
            fmt::format("has {} as an archive ({}); push the files as they are (ORAS, or modctl "
                        "with --raw)",
                        conf::Visible(file.path), conf::Visible(type)));
      }
      file.sha256 = *hex;
      file.size = layer.at("size").get<uint64_t>();
      file.from = fmt::format("{}/blobs/{}", base, blob);
      plan.files.push_back(std::move(file));
    } catch (const json::exception&) {
      return wrong("has a layer without digest or size");
    }
  }
  plan.manifest = std::move(text);
  return plan;
}

Task<absl::StatusOr<FilePlan>> PlanOci(Web& web, OciSource source, std::string digest) {
  std::string base = source.registry;
  while (base.ends_with('/')) base.pop_back();
  base += "/v2/" + EncodeS3Key(source.repository);
  const auto credentials =
      std::make_shared<RegistryCredentials>(source.username, source.password, source.repository);
  const std::string url = fmt::format("{}/manifests/{}", base, digest);
  WebRequest request{.url = url, .credentials = credentials};
  request.fields.emplace_back("accept",
                              "application/vnd.oci.image.manifest.v1+json, "
                              "application/vnd.docker.distribution.manifest.v2+json, "
                              "application/vnd.oci.artifact.manifest.v1+json, "
                              "application/vnd.oci.image.index.v1+json");
  absl::StatusOr<WebAnswer> answer = co_await web.Ask(std::move(request), kLongestManifest);
  if (!answer.ok()) co_return answer.status();
  if (const std::string hex = Sha256Hex(answer->body); hex != HexOfDigest(digest)) {
    co_return absl::DataLossError(
        fmt::format("{}: the registry sent a manifest whose digest is sha256:{}", ShownUrl(url), hex));
  }
  absl::StatusOr<FilePlan> plan = FilesOfManifest(std::move(answer->body), base, ShownUrl(url));
  if (plan.ok()) plan->credentials = credentials;
  co_return plan;
}

}  // namespace plugins::weights
