#include "plugins/weights/listed_files.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "plugins/weights/digest.h"
#include "plugins/weights/listing.h"
#include "plugins/weights/s3_signature.h"

namespace plugins::weights {

using gateway::net::Task;

Task<absl::StatusOr<FilePlan>> PlanListed(Web& web, ListedPlace place) {
  constexpr size_t kLongestListing = 16U << 20;
  std::string base = place.url;
  if (!base.ends_with('/')) base += '/';
  const std::string url = base + EncodeS3Key(place.listing);
  WebRequest request{.url = url, .credentials = place.credentials};
  const absl::StatusOr<WebAnswer> answer = co_await web.Ask(std::move(request), kLongestListing);
  if (!answer.ok()) co_return answer.status();
  absl::StatusOr<std::vector<ListedFile>> files = ReadListing(answer->body, ShownUrl(url));
  if (!files.ok()) co_return files.status();
  const std::string hex = Sha256Hex(WriteListing(*files));
  if (hex != HexOfDigest(place.digest)) {
    co_return absl::DataLossError(fmt::format("{} lists files whose digest is sha256:{}, and should be {}",
                                              ShownUrl(url), hex, place.digest));
  }
  FilePlan plan;
  plan.credentials = place.credentials;
  for (ListedFile& file : *files) {
    PlannedFile planned{.path = file.path, .from = base + EncodeS3Key(file.path), .sha256 = file.sha256};
    WebRequest head{.method = "HEAD", .url = planned.from, .credentials = place.credentials};
    const absl::StatusOr<WebAnswer> asked = co_await web.Ask(std::move(head), 0);
    // A server may not know HEAD; the sizes then show as the files come.
    if (asked.ok()) planned.size = asked->length;
    if (absl::IsNotFound(asked.status())) co_return asked.status();
    plan.files.push_back(std::move(planned));
  }
  co_return plan;
}

}  // namespace plugins::weights
