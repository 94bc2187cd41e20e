#include "gateway/config/batches.h"

#include "conf/reader.h"
#include "gateway/config/bucket_name.h"
#include "plugins/weights/listing.h"

namespace gateway::config {

using conf::Range;

namespace {

struct ObjectPrefix {
  std::string operator()(const std::string& prefix) const {
    return plugins::weights::PathDefect(prefix).empty()
               ? ""
               : "must be names with slashes between them, such as gateway/files";
  }
};

}  // namespace

static void Bind(conf::Object& o, FilesBucket& bucket) {
  o.Required("endpoint", bucket.endpoint);
  o.Required("bucket", bucket.bucket, BucketName());
  o.Optional("prefix", bucket.prefix, ObjectPrefix());
  o.Optional("region", bucket.region, conf::NotEmpty());
  o.Required("access_key", bucket.access_key);
  o.Required("secret_key", bucket.secret_key);
  o.Optional("ca", bucket.ca, conf::NotEmpty());
  if (!bucket.ca.empty() && !bucket.endpoint.tls())
    o.Error("has an effect only with an endpoint that begins with https://", "ca");
}

void Bind(conf::Object& o, Files& files) {
  o.Optional("file_bytes", conf::Size(files.file_bytes), Range{uint64_t{1} << 10, uint64_t{1} << 32});
  o.Optional("tenant_bytes", conf::Size(files.tenant_bytes), Range{uint64_t{1} << 10, uint64_t{1} << 44});
  o.Optional("tenant_files", files.tenant_files, Range{1U, 100'000U});
  o.Optional("max_age", files.max_age,
             Range{conf::Duration(std::chrono::hours(1)), conf::Duration(std::chrono::days(3650))});
  o.Optional("s3", files.s3);
  if (files.tenant_bytes < files.file_bytes)
    o.Error("must not be less than file_bytes, or no file of that size could be kept", "tenant_bytes");
}

void Bind(conf::Object& o, Batches& batches) {
  o.Optional("max_in_flight", batches.max_in_flight, Range{1U, 1024U});
  o.Optional("max_lines", batches.max_lines, Range{1U, 200'000U});
  o.Optional("tenant_batches", batches.tenant_batches, Range{1U, 100U});
}

}  // namespace gateway::config
