#include "tools/engine/prompt_transfer.h"

#include <fmt/format.h>

#include <utility>

#include "conf/json_parse.h"
#include "conf/json_text.h"
#include "gateway/net/clock.h"
#include "gateway/net/http/fetch.h"

namespace tidegate_engine {
namespace {

using gateway::net::Now;
using gateway::net::http::FetchRequest;

constexpr conf::Duration kTakeTimeout = std::chrono::seconds(2);

class Alarm final : public gateway::net::Alarm {
 public:
  Alarm(gateway::net::Watchdog& watchdog, conf::Duration after, gateway::net::Event& event)
      : gateway::net::Alarm(watchdog), event_(event) {
    SetAfter(after);
  }

 private:
  void OnAlarm() override { event_.Set(); }
  gateway::net::Event& event_;
};

ApiError TimedOut(uint64_t room) {
  return {.status = 500,
          .type = {},
          .message = fmt::format("No engine came to bootstrap room {} in time.", room),
          .param = {}};
}

}  // namespace

PromptTransfer::PromptTransfer(gateway::net::Loop& loop, HandoverOptions options, uint32_t block_size,
                               std::string id, Stats& stats)
    : loop_(loop), options_(options), block_size_(block_size), id_(std::move(id)), stats_(stats) {}

void PromptTransfer::SetAddress(std::string host, uint16_t port) {
  host_ = std::move(host);
  port_ = port;
}

std::optional<ApiError> PromptTransfer::Check(const Generation& request) const {
  if (options_.role == Role::kBoth || options_.kind != HandoverKind::kBootstrap || request.handover.room)
    return std::nullopt;
  return ApiError{.status = 400,
                  .type = {},
                  .message = "Invalid request: Disaggregated request received without bootstrap room id.",
                  .param = "bootstrap_room"};
}

std::shared_ptr<Room> PromptTransfer::RoomOf(uint64_t id) {
  std::shared_ptr<Room>& room = rooms_[id];
  if (!room) room = std::make_shared<Room>();
  return room;
}

// The number of the prompt's tokens that the other engine has; absent: none, or the client has left.
Task<std::optional<uint32_t>> PromptTransfer::Fetch(Exchange& exchange, const HandoverRequest& request) {
  const bool bootstrap = options_.kind == HandoverKind::kBootstrap;
  FetchRequest fetch;
  fetch.method = "POST";
  fetch.url.host = request.host;
  fetch.url.port = std::to_string(request.port);
  fetch.url.path = "/engine/handover";
  fetch.body = bootstrap ? fmt::format(R"({{"room":{}}})", *request.room)
                         : fmt::format(R"({{"engine":{},"block":{}}})", conf::Quoted(request.engine),
                                       request.first_block);
  fetch.timeout = bootstrap ? options_.wait_for : kTakeTimeout;
  gateway::net::AbortGroup group;
  exchange.OnGone([&group] { group.Abort(); });
  const auto answer = co_await gateway::net::http::Fetch(loop_, std::move(fetch), &group);
  exchange.OnGone([] {});
  if (!answer.ok() || answer->status != 200) co_return std::nullopt;
  const Json body = conf::ParseJson(answer->body);
  if (!body.is_object()) co_return std::nullopt;
  co_return body.value("tokens", 0U);
}

Task<std::optional<ApiError>> PromptTransfer::Receive(Exchange& exchange, Job& job) {
  const HandoverRequest& request = job.request.handover;
  const bool bootstrap = options_.kind == HandoverKind::kBootstrap;
  if (options_.role == Role::kPrefill || !(bootstrap ? request.room.has_value() : request.from_other))
    co_return std::nullopt;
  std::optional<uint32_t> tokens;
  const bool complete =
      !request.host.empty() && request.port > 0 && (bootstrap || (request.blocks && !request.engine.empty()));
  if (complete) tokens = co_await Fetch(exchange, request);
  if (exchange.gone()) {
    stats_.LeftHanging();
    co_return std::nullopt;
  }
  if (!tokens) {
    if (bootstrap) co_return TimedOut(*request.room);
    ++counts_.recomputed;
    co_return std::nullopt;
  }
  ++counts_.received;
  gateway::net::Sleep transfer(loop_.watchdog);
  co_await transfer.For(
      conf::Duration(static_cast<int64_t>(static_cast<double>(*tokens) / options_.transfer_rate * 1e9)));
  for (Choice& choice : job.choices) choice.given_tokens = *tokens;
  co_return std::nullopt;
}

// Keeps the prompt for the engine that the parameters in the job's answer lead here.
void PromptTransfer::Hold(uint32_t tokens, Job& job) {
  const uint32_t blocks = (tokens + block_size_ - 1) / block_size_;
  const uint64_t first = held_.Hold(tokens, blocks, Now() + options_.hold_for);
  ++counts_.offered;
  auto out = std::back_inserter(job.kv_transfer_params);
  fmt::format_to(out,
                 R"({{"do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":"{}",)"
                 R"("remote_block_ids":[)",
                 id_);
  for (uint32_t i = 0; i < blocks; ++i) fmt::format_to(out, "{}{}", i > 0 ? "," : "", first + i);
  fmt::format_to(out, R"(],"remote_host":"{}","remote_port":{},"tp_size":1}})", host_, port_);
}

Task<std::optional<ApiError>> PromptTransfer::Offer(Exchange& exchange, Job& job) {
  const HandoverRequest& request = job.request.handover;
  if (options_.role != Role::kPrefill || job.choices.empty()) co_return std::nullopt;
  const uint32_t tokens = job.choices.front().prompt->tokens();
  if (options_.kind == HandoverKind::kNixl) {
    if (request.for_other) Hold(tokens, job);
    co_return std::nullopt;
  }
  const std::shared_ptr<Room> room = RoomOf(*request.room);
  room->tokens = tokens;
  ++counts_.offered;
  room->computed.Set();
  exchange.OnGone([&room] { room->left.Set(); });
  {
    const Alarm alarm(loop_.watchdog, options_.wait_for, room->left);
    co_await room->left.Wait();
  }
  exchange.OnGone([] {});
  rooms_.erase(*request.room);
  if (room->taken || exchange.gone()) co_return std::nullopt;
  co_return TimedOut(*request.room);
}

Task<void> PromptTransfer::HandOver(Exchange& exchange) {
  const Json asked = conf::ParseJson(exchange.body());
  std::optional<uint32_t> tokens;
  if (asked.is_object() && asked.contains("room") && asked["room"].is_number_unsigned()) {
    const auto id = asked["room"].get<uint64_t>();
    const std::shared_ptr<Room> room = RoomOf(id);
    exchange.OnGone([&room] { room->computed.Set(); });
    {
      const Alarm alarm(loop_.watchdog, options_.wait_for, room->computed);
      co_await room->computed.Wait();
    }
    exchange.OnGone([] {});
    if (!exchange.gone()) tokens = room->tokens;
    if (tokens) {
      room->taken = true;
      room->left.Set();
    } else {
      rooms_.erase(id);
    }
  } else if (asked.is_object() && asked.value("engine", "") == id_) {
    tokens = held_.Take(asked.value("block", uint64_t{0}), Now());
  }
  if (tokens) ++counts_.taken;
  if (exchange.gone()) {
    exchange.CloseAfter();
  } else if (tokens) {
    co_await Reply(exchange, fmt::format(R"({{"tokens":{}}})", *tokens));
  } else {
    co_await Fail(
        exchange, stats_, Api::kHandover,
        {.status = 404, .type = {}, .message = "This engine does not hold the prompt.", .param = {}});
  }
}

}  // namespace tidegate_engine
