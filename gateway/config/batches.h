// Sections `files` and `batches`: what applications may keep here, and how their batches run.
#pragma once

#include <cstdint>

#include "conf/time.h"

namespace conf {
class Object;
}

namespace gateway::config {

// Files that applications upload, and the results of their batches. Absent: there are none.
struct Files {
  uint64_t file_bytes = uint64_t{200} << 20;  // of one file
  uint64_t tenant_bytes = uint64_t{4} << 30;  // of a tenant's files together
  uint32_t tenant_files = 1000;
  conf::Duration max_age = std::chrono::days(30);
};

struct Batches {
  uint32_t max_in_flight = 64;   // lines at replicas or in queues, of all batches together
  uint32_t max_lines = 50'000;   // of one batch
  uint32_t tenant_batches = 20;  // that have not ended
};

void Bind(conf::Object& object, Files& out);
void Bind(conf::Object& object, Batches& out);

}  // namespace gateway::config
