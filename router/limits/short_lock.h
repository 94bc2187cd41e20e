// A mutex for critical sections of some hundred nanoseconds: it spins for about that long before it sleeps.
// Meets Lockable (std::scoped_lock).
#pragma once

#include <mutex>

namespace router::limits {

class ShortLock {
 public:
  void lock() {
    for (int i = 0; i < kSpins; ++i) {
      if (mutex_.try_lock()) return;
      Pause();
    }
    mutex_.lock();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static constexpr int kSpins = 32;

  static void Pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  std::mutex mutex_;
};

}  // namespace router::limits
