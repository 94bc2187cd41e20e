// TextBuffers: strings that keep their memory from one request to the next, so that a request allocates none for
// the heads that it writes.
//
// Owner: the shard. Thread: its own. Bounded: keeps kMost strings of at most kMostBytes.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace gateway {

class TextBuffers {
 public:
  static constexpr size_t kMost = 256;
  static constexpr size_t kMostBytes = 4096;

  // Returns an empty string.
  std::string Take() {
    if (spare_.empty()) return {};
    std::string text = std::move(spare_.back());
    spare_.pop_back();
    return text;
  }
  void Give(std::string text) {
    if (spare_.size() == kMost || text.capacity() > kMostBytes) return;
    text.clear();
    spare_.push_back(std::move(text));
  }

 private:
  std::vector<std::string> spare_;
};

}  // namespace gateway
