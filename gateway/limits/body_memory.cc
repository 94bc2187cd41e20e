#include "gateway/limits/body_memory.h"

namespace gateway {

BodyMemory::Hold::~Hold() {
  if (!begun_) return;
  const std::scoped_lock lock(memory_.mutex_);
  memory_.bytes_ -= bytes_;
  for (Link& link : links_) {
    link.account->second.bytes -= bytes_;
    if (--link.account->second.holds == 0) memory_.by_tenant_.erase(link.account);
  }
}

bool BodyMemory::Hold::Refuse(Refusal refusal, std::string_view tenant) {
  refusal_ = refusal;
  refusing_tenant_ = tenant;
  return false;
}

bool BodyMemory::Hold::GrowTo(uint64_t bytes) {
  if (begun_ && bytes <= bytes_) return true;
  const std::scoped_lock lock(memory_.mutex_);
  const uint64_t more = bytes - bytes_;
  for (const Link& link : links_) {
    const auto found = begun_ ? link.account : memory_.by_tenant_.find(link.share.tenant);
    const Account held = found == memory_.by_tenant_.end() ? Account() : found->second;
    if (held.bytes + more > link.share.bytes) return Refuse(Refusal::kTenantBytes, link.share.tenant);
  }
  if (memory_.bytes_ + more > process_bytes_) return Refuse(Refusal::kProcess, {});
  for (Link& link : links_) {
    if (!begun_) {
      link.account = memory_.by_tenant_.try_emplace(link.share.tenant).first;
      ++link.account->second.holds;
    }
    link.account->second.bytes += more;
  }
  memory_.bytes_ += more;
  bytes_ = bytes;
  begun_ = true;
  return true;
}

uint64_t BodyMemory::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

}  // namespace gateway
