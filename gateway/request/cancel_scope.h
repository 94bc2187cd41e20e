// CancelScope: aborts the running operation when its result is no longer needed.
//
// Thread: the shard's.
#pragma once

#include "gateway/net/transport.h"

namespace gateway {

class CancelScope {
 public:
  CancelScope() = default;
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

  // The operation that Cancel() aborts; null when none runs. It must outlive its registration.
  void SetRunning(net::Abortable* operation) { running_ = operation; }
  net::Abortable* running() const { return running_; }

  bool cancelled() const { return cancelled_; }
  // Does not abort: the operation has ended by itself, or the caller aborts it.
  void MarkCancelled() { cancelled_ = true; }
  // For the next operation.
  void Reset(bool cancelled) { cancelled_ = cancelled; }

  // The abort may resume the coroutine that owns this scope, and so destroy the scope: a caller does nothing
  // with it afterwards.
  void Cancel() {
    cancelled_ = true;
    if (running_) running_->Abort();
  }

 private:
  net::Abortable* running_ = nullptr;
  bool cancelled_ = false;
};

}  // namespace gateway
