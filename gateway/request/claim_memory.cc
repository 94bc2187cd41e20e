// claim_memory: claims room for the body in the memory budgets of the tenant and of the process.
#include <algorithm>

#include "gateway/request/form_reader.h"
#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"

namespace gateway::stages {
namespace {

// A tenant's bodies take no more than half of the memory, unless the tenant has `body_memory`.
void BeginRoom(Exchange& x) {
  const config::ServerLimits& limits = x.runtime->config().server.limits;
  BodyMemory::Hold& room = x.body.room.emplace(x.shard.shared.body_memory, limits.body_memory);
  const std::string_view path = x.identity.principal->tenant;
  for (size_t end = path.find('/'); !path.empty(); end = path.find('/', end + 1)) {
    const std::string_view tenant = path.substr(0, end);
    if (const TenantRuntime* known = x.runtime->FindTenant(tenant)) {
      const uint64_t usual = std::max(limits.body_memory / 2, limits.body_bytes);
      room.Add({.tenant = std::string(tenant), .bytes = known->config->body_memory.value_or(usual)});
    }
    if (end == std::string_view::npos) break;
  }
}

}  // namespace

StageResult RefuseForRoom(Exchange& x) {
  x.client.SetReusable(false);
  x.shard.metrics.cells.limit_refusals.Add();
  const Failure failure = RoomFailure(*x.body.room);
  x.outcome.limit = failure.error.limit;
  return x.Fail(failure);
}

StageResult ClaimMemory(Exchange& x) {
  if (!x.body.takes_memory) return StageResult::kContinue;
  BeginRoom(x);
  const uint64_t most = x.runtime->config().server.limits.body_bytes;
  const uint64_t length = x.client.head().content_length.value_or(0);  // unknown: claimed while it is read
  if (length > most && !x.body.form) return StageResult::kContinue;    // read_body refuses it
  return x.body.room->GrowTo(std::min(length, most)) ? StageResult::kContinue : RefuseForRoom(x);
}

}  // namespace gateway::stages
