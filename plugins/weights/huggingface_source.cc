// A repository of Hugging Face's layout: its files by the hub's API, each below /resolve/REVISION/.
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/json_parse.h"
#include "conf/shown.h"
#include "gateway/net/url.h"
#include "plugins/weights/credentials.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/file_plan.h"
#include "plugins/weights/s3_signature.h"

namespace plugins::weights {
namespace {

using gateway::net::Task;
using nlohmann::json;

constexpr size_t kLongestPage = 32U << 20;
constexpr int kMostPages = 1000;

// The URL of `<URL>; rel="next"`, absolute or below `base`; empty: it was the last page.
std::string NextPage(std::string_view link, const std::string& base) {
  const size_t rel = link.find("rel=\"next\"");
  if (rel == std::string_view::npos) return {};
  const size_t end = link.rfind('>', rel);
  const size_t begin = end == std::string_view::npos ? end : link.rfind('<', end);
  if (begin == std::string_view::npos) return {};
  const std::string_view target = link.substr(begin + 1, end - begin - 1);
  return target.starts_with('/') ? base + std::string(target) : std::string(target);
}

bool IsIncluded(const std::vector<std::string>& globs, const std::string& path) {
  return globs.empty() || std::ranges::any_of(globs, [&](const std::string& glob) {
           return fnmatch(glob.c_str(), path.c_str(), 0) == 0;
         });
}

}  // namespace

Task<absl::StatusOr<FilePlan>> PlanHuggingFace(Web& web, HuggingFaceSource source) {
  std::string base = source.url;
  while (base.ends_with('/')) base.pop_back();
  FilePlan plan;
  plan.credentials = BearerOf(source.token);
  const std::string revision = gateway::net::PercentEncode(source.revision);
  const std::string repository = EncodeS3Key(source.repository);
  std::string next = fmt::format("{}/api/models/{}/tree/{}?recursive=true", base, repository, revision);
  for (int pages = 0; !next.empty() && pages < kMostPages; ++pages) {
    WebRequest request{.url = next, .credentials = plan.credentials};
    const absl::StatusOr<WebAnswer> answer = co_await web.Ask(std::move(request), kLongestPage);
    if (!answer.ok()) co_return answer.status();
    const json files = conf::ParseJson(answer->body);
    const auto strange = [&] {
      return absl::FailedPreconditionError(
          fmt::format("{} is not a list of files, as Hugging Face's API gives it", ShownUrl(next)));
    };
    if (!files.is_array()) co_return strange();
    for (const json& file : files) {
      try {
        if (file.at("type").get<std::string>() != "file") continue;
        PlannedFile planned;
        planned.path = file.at("path").get<std::string>();
        if (!IsIncluded(source.include, planned.path)) continue;
        planned.size = file.at("size").get<uint64_t>();
        if (file.contains("lfs") && file["lfs"].is_object()) {
          const auto oid = file["lfs"].at("oid").get<std::string>();
          planned.sha256 = HexOfDigest("sha256:" + oid).value_or(std::string());
        }
        planned.from =
            fmt::format("{}/{}/resolve/{}/{}", base, repository, revision, EncodeS3Key(planned.path));
        plan.files.push_back(std::move(planned));
      } catch (const json::exception&) {
        co_return strange();
      }
    }
    next = NextPage(answer->link, base);
  }
  if (plan.files.empty() && !source.include.empty())
    co_return absl::NotFoundError(
        fmt::format("no file of {} matches include", conf::Visible(source.repository)));
  co_return plan;
}

}  // namespace plugins::weights
