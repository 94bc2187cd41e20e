// Sections `files` and `batches`: what applications may keep here, and how their batches run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "conf/secret.h"
#include "conf/time.h"
#include "gateway/config/types.h"

namespace conf {
class Object;
}

namespace gateway::config {

// A bucket for the bytes of files, by the API of S3.
struct FilesBucket {
  Url endpoint;
  std::string bucket;
  std::string prefix;  // of the objects' names, without a slash at its end
  std::string region = "us-east-1";
  conf::Secret access_key;
  conf::Secret secret_key;
  std::string ca;  // PEM, of the server's certificate; empty: the system's authorities
};

// Files that applications upload, and the results of their batches. Absent: there are none.
struct Files {
  uint64_t file_bytes = uint64_t{200} << 20;  // of one file
  uint64_t tenant_bytes = uint64_t{4} << 30;  // of a tenant's files together
  uint32_t tenant_files = 1000;
  conf::Duration max_age = std::chrono::days(30);
  std::optional<FilesBucket> s3 = {};  // absent: bytes lie in state_dir
};

struct Batches {
  uint32_t max_in_flight = 64;   // lines at replicas or in queues, of all batches together
  uint32_t max_lines = 50'000;   // of one batch
  uint32_t tenant_batches = 20;  // that have not ended
};

void Bind(conf::Object& object, Files& out);
void Bind(conf::Object& object, Batches& out);

}  // namespace gateway::config
