#include "gateway/batches/bucket.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"
#include "plugins/weights/digest.h"

namespace gateway::batches {
namespace {

using plugins::weights::S3Bucket;

constexpr conf::Duration kBucketSilence = std::chrono::seconds(30);
constexpr conf::Duration kRemovalSilence = std::chrono::seconds(10);
constexpr conf::Duration kAccessAge = std::chrono::minutes(1);  // after which a renewed certificate is read
constexpr conf::Duration kBucketPause = std::chrono::milliseconds(300);
constexpr int kTransferTries = 3;

// Differs where an access does.
std::string SignOf(const config::FilesBucket& bucket) {
  return plugins::weights::Sha256Hex(fmt::format("{}\n{}\n{}\n{}\n{}\n{}", ToString(bucket.endpoint),
                                                 bucket.bucket, bucket.region, bucket.access_key.Reveal(),
                                                 bucket.secret_key.Reveal(), bucket.ca));
}

// Blocks: reads the certificates.
absl::StatusOr<Bucket::Access> AccessTo(const config::FilesBucket& bucket) {
  auto access = std::make_shared<S3Bucket::Options>();
  access->endpoint = ToString(bucket.endpoint);
  access->bucket = bucket.bucket;
  access->keys = {.region = bucket.region,
                  .access_key = std::string(bucket.access_key.Reveal()),
                  .secret_key = std::string(bucket.secret_key.Reveal())};
  access->web.silence = kBucketSilence;
  access->web.tries = 1;
  if (bucket.endpoint.tls()) {
    auto tls = net::TlsContext::Client({.ca = bucket.ca, .certificate = {}, .key = {}});
    if (!tls.ok()) return tls.status();
    access->web.tls = *std::move(tls);
  }
  return access;
}

}  // namespace

Bucket::Bucket(net::Loop& loop, std::function<std::optional<config::Files>()> options)
    : loop_(loop), options_(std::move(options)) {}

bool Bucket::configured() const {
  const std::optional<config::Files> options = options_();
  return options && options->s3;
}

std::string Bucket::ObjectFor(std::string_view id) const {
  const std::optional<config::Files> options = options_();
  if (!options || !options->s3 || options->s3->prefix.empty()) return std::string(id);
  return fmt::format("{}/{}", options->s3->prefix, id);
}

net::Task<absl::StatusOr<Bucket::Access>> Bucket::Open() {
  const std::optional<config::Files> options = options_();
  if (!options || !options->s3)
    co_return absl::FailedPreconditionError(
        "the configuration names no bucket for files; set files.s3 to the one that they are in");
  const config::FilesBucket& bucket = *options->s3;
  const conf::TimePoint now = net::Now();
  std::string sign = SignOf(bucket);
  if (access_ != nullptr && sign == access_of_ && now < access_at_ + kAccessAge) co_return access_;
  absl::StatusOr<Access> access = co_await net::OffLoop(loop_, [&bucket] { return AccessTo(bucket); });
  if (!access.ok()) co_return access.status();
  access_ = *access;
  access_of_ = std::move(sign);
  access_at_ = now;
  co_return access;
}

absl::Status Bucket::GoOn() const {
  return stopped_ ? absl::CancelledError("the gateway stops") : absl::OkStatus();
}

net::Task<absl::Status> Bucket::Run(int tries, conf::Duration silence, Transfer transfer) {
  for (int tried = 1;; ++tried) {
    const absl::StatusOr<Access> access = co_await Open();
    if (!access.ok()) co_return access.status();
    const absl::Status done = co_await net::OffLoop(loop_, [&access, silence, &transfer]() -> absl::Status {
      net::Loop own([](std::exception_ptr) {});  // Await throws
      S3Bucket::Options options = **access;
      options.web.silence = silence;
      S3Bucket bucket(own, options);
      return net::Await(own, transfer(bucket));
    });
    if (!absl::IsUnavailable(done) || tried >= tries || stopped_) co_return done;
    net::Sleep pause(loop_.watchdog);
    co_await pause.For(kBucketPause);
  }
}

net::Task<absl::Status> Bucket::Put(std::string path, std::string object, Piece piece) {
  const auto go_on = [this] { return GoOn(); };
  co_return co_await Run(kTransferTries, kBucketSilence,
                         [&](S3Bucket& bucket) { return bucket.Put(object, path, piece, go_on); });
}

net::Task<absl::Status> Bucket::Get(std::string object, std::string path) {
  const auto go_on = [this] { return GoOn(); };
  co_return co_await Run(kTransferTries, kBucketSilence,
                         [&](S3Bucket& bucket) { return bucket.Get(object, path, go_on); });
}

net::Task<absl::Status> Bucket::Remove(std::string object) {
  co_return co_await Run(1, kRemovalSilence, [&](S3Bucket& bucket) { return bucket.Remove(object); });
}

}  // namespace gateway::batches
