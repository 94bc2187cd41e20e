// Files below a URL: one, or those of a listing.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/net/url.h"
#include "plugins/weights/credentials.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/file_plan.h"
#include "plugins/weights/listed_files.h"

namespace plugins::weights {

using gateway::net::Task;

Task<absl::StatusOr<FilePlan>> PlanHttp(Web& web, HttpSource source, std::string digest) {
  FilePlan plan;
  plan.credentials = BearerOf(source.token);
  if (!source.listing.empty())
    co_return co_await PlanListed(web, {source.url, source.listing, std::move(digest), plan.credentials});
  const absl::StatusOr<gateway::net::Url> url = gateway::net::ParseUrl(source.url);
  if (!url.ok()) co_return url.status();
  plan.digest = DigestOf::kFile;
  plan.files.push_back({.path = NameOfOneFile(source),
                        .from = source.url,
                        .sha256 = HexOfDigest(digest).value_or(std::string())});
  co_return plan;
}

}  // namespace plugins::weights
