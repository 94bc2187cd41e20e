// TlsHolder: the TLS context of listeners, swapped when their certificates are renewed. Thread-safe.
#pragma once

#include <memory>

#include "gateway/net/tls.h"

namespace gateway::net {

class TlsHolder {
 public:
  std::shared_ptr<const TlsContext> Get() const { return std::atomic_load(&context_); }
  void Set(std::shared_ptr<const TlsContext> context) { std::atomic_store(&context_, std::move(context)); }

 private:
  std::shared_ptr<const TlsContext> context_;
};

}  // namespace gateway::net
