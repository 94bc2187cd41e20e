// RESP2, sans-IO: commands into bytes, bytes into replies. The format and the parser are hiredis'; its
// sockets are not used. Plain values; a RedisReader belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gateway::net {

using RedisCommand = std::vector<std::string>;

struct RedisReply {
  enum class Type : uint8_t { kNil, kStatus, kError, kString, kInteger, kArray };

  Type type = Type::kNil;
  int64_t integer = 0;
  std::string text;  // of a status, an error or a string
  std::vector<RedisReply> elements;

  bool is_error() const { return type == Type::kError; }
};

void AppendRedisCommand(std::string& out, const RedisCommand& command);

class RedisReader {
 public:
  // The longest array in a reply.
  static constexpr int kMaxElements = 4096;

  // A reply that needs more than `max_bytes` is an error.
  explicit RedisReader(size_t max_bytes);
  ~RedisReader();

  void Feed(std::string_view bytes);

  enum class Next : uint8_t { kReply, kMore, kBroken };
  // After kBroken the reader can no longer be used.
  Next Take(RedisReply& reply);
  std::string error() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gateway::net
