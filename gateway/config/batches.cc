#include "gateway/config/batches.h"

#include "conf/reader.h"

namespace gateway::config {

using conf::Range;

void Bind(conf::Object& o, Files& files) {
  o.Optional("file_bytes", conf::Size(files.file_bytes), Range{uint64_t{1} << 10, uint64_t{1} << 32});
  o.Optional("tenant_bytes", conf::Size(files.tenant_bytes), Range{uint64_t{1} << 10, uint64_t{1} << 44});
  o.Optional("tenant_files", files.tenant_files, Range{1U, 100'000U});
  o.Optional("max_age", files.max_age,
             Range{conf::Duration(std::chrono::hours(1)), conf::Duration(std::chrono::days(3650))});
  if (files.tenant_bytes < files.file_bytes)
    o.Error("must not be less than file_bytes, or no file of that size could be kept", "tenant_bytes");
}

void Bind(conf::Object& o, Batches& batches) {
  o.Optional("max_in_flight", batches.max_in_flight, Range{1U, 1024U});
  o.Optional("max_lines", batches.max_lines, Range{1U, 200'000U});
  o.Optional("tenant_batches", batches.tenant_batches, Range{1U, 100U});
}

}  // namespace gateway::config
