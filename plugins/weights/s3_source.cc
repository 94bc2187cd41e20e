// Objects of a bucket below a prefix, by the API of S3, with buckets in the path.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "conf/hex.h"
#include "conf/text.h"
#include "gateway/net/url.h"
#include "plugins/weights/credentials.h"
#include "plugins/weights/file_plan.h"
#include "plugins/weights/listed_files.h"
#include "plugins/weights/s3_listing.h"
#include "plugins/weights/s3_signature.h"

namespace plugins::weights {

using gateway::net::Task;

Task<absl::StatusOr<FilePlan>> PlanS3(Web& web, S3Source source, std::string digest) {
  constexpr size_t kLongestPage = 16U << 20;
  constexpr int kMostPages = 1000;  // of 1,000 objects
  const std::string base = S3BucketUrl(source.endpoint, source.bucket);
  std::string prefix = source.prefix;
  while (prefix.starts_with('/')) prefix.erase(0, 1);
  if (!prefix.empty() && !prefix.ends_with('/')) prefix += '/';
  FilePlan plan;
  plan.credentials = SigningOf({source.region, source.access_key, source.secret_key, source.session_token});
  if (!source.listing.empty()) {
    co_return co_await PlanListed(web, {fmt::format("{}/{}", base, EncodeS3Key(prefix)), source.listing,
                                        std::move(digest), plan.credentials});
  }
  std::string token;
  for (int pages = 0; pages < kMostPages; ++pages) {
    std::string url =
        fmt::format("{}?encoding-type=url&list-type=2&prefix={}", base, gateway::net::PercentEncode(prefix));
    if (!token.empty()) url += "&continuation-token=" + gateway::net::PercentEncode(token);
    WebRequest request{.url = url, .credentials = plan.credentials};
    const absl::StatusOr<WebAnswer> answer = co_await web.Ask(std::move(request), kLongestPage);
    if (!answer.ok()) co_return answer.status();
    const std::optional<S3Page> page = ReadS3Page(answer->body);
    if (!page) {
      co_return absl::FailedPreconditionError(
          fmt::format("{} is not a list of objects, as S3 gives it", ShownUrl(url)));
    }
    for (const S3Object& object : page->objects) {
      if (object.key.ends_with('/') || !object.key.starts_with(prefix)) continue;  // a folder's mark
      plan.files.push_back({.path = object.key.substr(prefix.size()),
                            .from = fmt::format("{}/{}", base, EncodeS3Key(object.key)),
                            .size = object.size});
    }
    token = page->next;
    if (token.empty()) break;
  }
  co_return plan;
}

}  // namespace plugins::weights
