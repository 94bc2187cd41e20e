// Buffer: contiguous bytes, filled at the back and consumed at the front. Grows by doubling. Always has
// kPadding readable bytes behind its capacity, as SIMD JSON scanning needs.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

#include "gateway/net/stream.h"

namespace gateway::net {

class Buffer {
 public:
  static constexpr size_t kPadding = 64;

  explicit Buffer(size_t capacity = 0) { Reserve(capacity); }

  std::string_view view() const { return {data_.get() + begin_, end_ - begin_}; }
  char* data() { return data_.get() + begin_; }
  size_t size() const { return end_ - begin_; }
  size_t capacity() const { return capacity_; }
  bool empty() const { return begin_ == end_; }
  MutableBuffer Space() { return {data_.get() + end_, capacity_ - end_}; }
  size_t space() const { return capacity_ - end_; }

  void Commit(size_t n) { end_ += n; }
  void Consume(size_t n) {
    begin_ += n;
    if (begin_ == end_) begin_ = end_ = 0;
  }
  // Cuts the readable bytes to n.
  void Truncate(size_t n) { end_ = begin_ + n; }
  void Clear() { begin_ = end_ = 0; }

  // Moves what is readable to the front.
  void Compact() {
    if (begin_ == 0) return;
    std::memmove(data_.get(), data(), size());
    end_ -= begin_;
    begin_ = 0;
  }

  // Makes room for `n` readable bytes in all. Invalidates views when it grows or compacts.
  void Reserve(size_t n) {
    if (n <= capacity_ - begin_) return;
    if (n <= capacity_) return Compact();
    size_t grown = capacity_ < 4096 ? 4096 : capacity_;
    while (grown < n) grown *= 2;
    std::unique_ptr<char[]> bigger(new char[grown + kPadding]);
    if (size() > 0) std::memcpy(bigger.get(), data(), size());
    end_ -= begin_;
    begin_ = 0;
    data_ = std::move(bigger);
    capacity_ = grown;
  }

  void Append(std::string_view bytes) {
    Reserve(size() + bytes.size());
    std::memcpy(data_.get() + end_, bytes.data(), bytes.size());
    end_ += bytes.size();
  }

  // Frees the memory.
  void Release() {
    data_.reset();
    begin_ = end_ = capacity_ = 0;
  }

 private:
  std::unique_ptr<char[]> data_;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t capacity_ = 0;
};

}  // namespace gateway::net
