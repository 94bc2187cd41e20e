#include "plugins/kv_events/subscriber.h"

#include <array>
#include <optional>
#include <utility>

namespace plugins::kv_events {
namespace {

using gateway::net::ZmqSocket;

constexpr size_t kNumberBytes = 8;
constexpr uint64_t kEnd = UINT64_MAX;  // in place of a number: all has been sent again

std::optional<uint64_t> NumberOf(std::string_view frame) {
  if (frame.size() != kNumberBytes) return std::nullopt;
  uint64_t number = 0;
  for (const char c : frame) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

std::array<char, kNumberBytes> BytesOf(uint64_t number) {
  std::array<char, kNumberBytes> bytes;
  for (size_t i = 0; i < kNumberBytes; ++i)
    bytes[i] = static_cast<char>(number >> (8 * (kNumberBytes - 1 - i)));
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Subscriber>> Subscriber::Open(gateway::net::Loop& loop,
                                                             gateway::net::ZmqContext& context, Source source,
                                                             Listener& listener) {
  std::unique_ptr<Subscriber> made(new Subscriber(loop, context, std::move(source), listener));
  if (absl::Status connecting = made->Connect(); !connecting.ok()) return connecting;
  return made;
}

absl::Status Subscriber::Connect() {
  live_.reset();
  SetAfter(kReopen);
  auto live = ZmqSocket::Open(
      loop_, context_, {.url = source_.url, .topic = source_.topic},
      [this](std::span<const std::string_view> frames) { OnMessage(frames); },
      [this](bool up) { OnLink(up); });
  if (!live.ok()) return live.status();
  live_ = *std::move(live);
  return absl::OkStatus();
}

Subscriber::Subscriber(gateway::net::Loop& loop, gateway::net::ZmqContext& context, Source source,
                       Listener& listener)
    : Alarm(loop.watchdog),
      loop_(loop),
      context_(context),
      source_(std::move(source)),
      listener_(listener),
      sequence_(*this, !source_.replay.empty()) {}

Subscriber::Counts Subscriber::counts() const {
  Counts counts = counts_;
  counts.sequence = sequence_.counts();
  return counts;
}

// Topic, number, batch.
void Subscriber::OnMessage(std::span<const std::string_view> frames) {
  const std::optional<uint64_t> number = frames.size() == 3 ? NumberOf(frames[1]) : std::nullopt;
  if (!number || *number == kEnd) return Malformed("a message is not of three frames, the second a number");
  sequence_.OnMessage(*number, frames[2]);
  NotifyState();
}

// An empty frame, number, batch; in the end kEnd and an empty one.
void Subscriber::OnReplayMessage(std::span<const std::string_view> frames) {
  const std::optional<uint64_t> number = frames.size() == 3 ? NumberOf(frames[1]) : std::nullopt;
  if (!number) {
    Malformed("an answer is not of three frames, the second a number");
    sequence_.OnReplayFailed();
  } else if (*number == kEnd || frames[2].empty()) {
    sequence_.OnReplayEnd();
  } else {
    sequence_.OnReplayed(*number, frames[2]);
  }
  NotifyState();
}

void Subscriber::OnLink(bool up) {
  if (up) {
    ++counts_.connects;
    sequence_.OnUp();
  } else {
    sequence_.OnDown();
  }
  NotifyState();
}

void Subscriber::Apply(std::string_view payload) {
  const std::variant<Batch, std::string> decoded = Decode(payload);
  if (const std::string* why = std::get_if<std::string>(&decoded)) return Malformed("a batch " + *why);
  ++counts_.batches;
  listener_.OnBatch(std::get<Batch>(decoded));
}

void Subscriber::AskReplay(uint64_t from) {
  // A socket of its own, so that no answer to an earlier question comes in.
  auto replay = ZmqSocket::Open(
      loop_, context_, {.kind = ZmqSocket::Kind::kDealer, .url = source_.replay, .max_queued = 256},
      [this](std::span<const std::string_view> frames) { OnReplayMessage(frames); });
  replay_.reset();
  SetAfter(kReplayPatience);
  if (!replay.ok()) return;  // the same as no answer
  replay_ = *std::move(replay);
  const std::array<char, kNumberBytes> number = BytesOf(from);
  replay_->Send({std::string_view(), std::string_view(number.data(), number.size())});
}

void Subscriber::OnAlarm() {
  if (sequence_.state() == Sequence::State::kDown) return Connect().IgnoreError();  // there is a next time
  sequence_.OnReplayFailed();
  NotifyState();
}

void Subscriber::Malformed(const std::string& why) {
  ++counts_.malformed;
  listener_.OnMalformed(why);
}

void Subscriber::NotifyState() {
  const Sequence::State state = sequence_.state();
  if (state != Sequence::State::kReplaying) replay_.reset();
  if (state == Sequence::State::kLive) Alarm::Clear();
  if (state == Sequence::State::kDown && !armed()) SetAfter(kReopen);
  if (std::exchange(told_, sequence_.state()) != sequence_.state()) listener_.OnState(told_);
}

}  // namespace plugins::kv_events
