#include "tools/engine/kv_publisher.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace tidegate_engine {
namespace {

using gateway::net::ZmqSocket;
using Json = nlohmann::ordered_json;

constexpr int kMaxQueued = 16'384;

std::array<char, 8> BytesOf(uint64_t number) {
  std::array<char, 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(number >> (8 * (7 - i)));
  return bytes;
}

std::string_view View(const std::array<char, 8>& bytes) {
  return {bytes.data(), bytes.size()};
}

}  // namespace

std::string EncodeKvBatch(const std::vector<KvEvent>& events, double at, bool maps) {
  Json list = Json::array();
  for (const KvEvent& event : events) {
    Json fields = {{"type", event.stored ? "BlockStored" : "BlockRemoved"}, {"block_hashes", event.hashes}};
    if (event.stored) {
      fields["parent_block_hash"] = event.parent ? Json(*event.parent) : Json();
      fields["token_ids"] = event.tokens;
      fields["block_size"] = event.tokens.size() / event.hashes.size();
      fields["lora_id"] = nullptr;
    }
    fields["medium"] = "GPU";
    if (maps) {
      list.push_back(std::move(fields));
      continue;
    }
    Json array = Json::array();
    for (auto& field : fields) array.push_back(std::move(field));
    list.push_back(std::move(array));
  }
  const Json batch =
      maps ? Json{{"ts", at}, {"events", list}, {"data_parallel_rank", 0}} : Json::array({at, list, 0});
  std::string bytes;
  Json::to_msgpack(batch, bytes);
  return bytes;
}

absl::StatusOr<std::unique_ptr<KvPublisher>> KvPublisher::Open(gateway::net::Loop& loop,
                                                               const KvEventOptions& options) {
  std::unique_ptr<KvPublisher> made(new KvPublisher(options));
  auto live = ZmqSocket::Open(
      loop, made->context_,
      {.kind = ZmqSocket::Kind::kPub, .url = options.url, .bind = true, .max_queued = kMaxQueued},
      [](auto) {});
  if (!live.ok()) return live.status();
  made->live_ = *std::move(live);
  if (options.replay.empty()) return made;
  auto replay = ZmqSocket::Open(
      loop, made->context_,
      {.kind = ZmqSocket::Kind::kRouter, .url = options.replay, .bind = true, .max_queued = kMaxQueued},
      [self = made.get()](std::span<const std::string_view> frames) { self->OnReplay(frames); });
  if (!replay.ok()) return replay.status();
  made->replay_ = *std::move(replay);
  return made;
}

void KvPublisher::Publish(const std::vector<KvEvent>& events, conf::TimePoint now) {
  if (events.empty()) return;
  const double at = static_cast<double>(conf::ToUnixNanos(now)) * 1e-9;
  sent_.push_back(EncodeKvBatch(events, at, options_.maps));
  if (sent_.size() > options_.buffer) sent_.pop_front();
  const std::array<char, 8> number = BytesOf(next_++);
  live_->Send({options_.topic, View(number), sent_.back()});
}

// [client, empty, first number wanted] → [client, empty, number, batch]…, at the end number -1 without a
// batch.
void KvPublisher::OnReplay(std::span<const std::string_view> frames) {
  if (frames.size() != 3 || frames[2].size() != 8) return;
  uint64_t from = 0;
  for (const char c : frames[2]) from = from << 8 | static_cast<unsigned char>(c);
  const uint64_t first = next_ - sent_.size();
  for (uint64_t i = std::max(from, first); i < next_; ++i) {
    replay_->Send({frames[0], std::string_view(), View(BytesOf(i)), sent_[i - first]});
  }
  replay_->Send({frames[0], std::string_view(), View(BytesOf(UINT64_MAX)), std::string_view()});
}

}  // namespace tidegate_engine
