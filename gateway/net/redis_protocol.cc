#include "gateway/net/redis_protocol.h"

#include <fmt/format.h>
#include <hiredis/hiredis.h>

#include <cstdlib>
#include <new>
#include <utility>

namespace gateway::net {
namespace {

// Where the parser stores the value of `task`: as an element of the array above it, or as a reply.
RedisReply* Place(const redisReadTask* task) {
  if (!task->parent) return new RedisReply;
  auto* parent = static_cast<RedisReply*>(task->parent->obj);
  return &parent->elements[static_cast<size_t>(task->idx)];
}

void* CreateString(const redisReadTask* task, char* bytes, size_t length) {
  RedisReply* reply = Place(task);
  reply->type = task->type == REDIS_REPLY_ERROR    ? RedisReply::Type::kError
                : task->type == REDIS_REPLY_STATUS ? RedisReply::Type::kStatus
                                                   : RedisReply::Type::kString;
  reply->text.assign(bytes, length);
  return reply;
}

void* CreateArray(const redisReadTask* task, int elements) {
  if (elements < 0 || elements > RedisReader::kMaxElements) return nullptr;
  RedisReply* reply = Place(task);
  reply->type = RedisReply::Type::kArray;
  reply->elements.resize(static_cast<size_t>(elements));
  return reply;
}

void* CreateInteger(const redisReadTask* task, long long value) {
  RedisReply* reply = Place(task);
  reply->type = RedisReply::Type::kInteger;
  reply->integer = value;
  return reply;
}

void* CreateNil(const redisReadTask* task) {
  return Place(task);
}

// Called for whole replies only.
void Free(void* reply) {
  delete static_cast<RedisReply*>(reply);
}

redisReplyObjectFunctions kFunctions = {CreateString, CreateArray, CreateInteger, CreateNil, Free};

}  // namespace

void AppendRedisCommand(std::string& out, const RedisCommand& command) {
  std::vector<const char*> words;
  std::vector<size_t> lengths;
  words.reserve(command.size());
  lengths.reserve(command.size());
  for (const std::string& word : command) {
    words.push_back(word.data());
    lengths.push_back(word.size());
  }
  char* formatted = nullptr;
  const int n =
      redisFormatCommandArgv(&formatted, static_cast<int>(command.size()), words.data(), lengths.data());
  if (n < 0) throw std::bad_alloc();
  out.append(formatted, static_cast<size_t>(n));
  std::free(formatted);
}

struct RedisReader::Impl {
  redisReader* reader;
  size_t max_bytes;
  uint64_t fed = 0;
  uint64_t reply_begin = 0;  // among the bytes that were fed
  bool too_large = false;

  uint64_t parsed_to() const { return fed - (reader->len - reader->pos); }
};

RedisReader::RedisReader(size_t max_bytes)
    : impl_(std::make_unique<Impl>(Impl{redisReaderCreateWithFunctions(&kFunctions), max_bytes})) {
  if (!impl_->reader) throw std::bad_alloc();
}

RedisReader::~RedisReader() {
  redisReaderFree(impl_->reader);
}

void RedisReader::Feed(std::string_view bytes) {
  redisReaderFeed(impl_->reader, bytes.data(), bytes.size());
  impl_->fed += bytes.size();
}

RedisReader::Next RedisReader::Take(RedisReply& reply) {
  void* parsed = nullptr;
  if (impl_->too_large || redisReaderGetReply(impl_->reader, &parsed) != REDIS_OK) return Next::kBroken;
  const std::unique_ptr<RedisReply> owned(static_cast<RedisReply*>(parsed));
  // The parser drops what it has read: a reply's size can only be computed from the position of its begin.
  const uint64_t end = owned ? impl_->parsed_to() : impl_->fed;
  impl_->too_large = end - impl_->reply_begin > impl_->max_bytes;
  if (impl_->too_large) return Next::kBroken;
  if (!owned) return Next::kMore;
  impl_->reply_begin = end;
  reply = std::move(*owned);
  return Next::kReply;
}

std::string RedisReader::error() const {
  if (impl_->too_large) return fmt::format("a reply is larger than {} bytes", impl_->max_bytes);
  return impl_->reader->errstr;
}

}  // namespace gateway::net
