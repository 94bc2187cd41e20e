// Prompts that go from one engine to another: see handover.h.
#include <fmt/format.h>

#include <algorithm>

#include "conf/json_text.h"
#include "gateway/net/clock.h"
#include "gateway/net/http/fetch.h"
#include "tools/engine/service.h"

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
          .message = fmt::format("Nobody came to bootstrap room {} in time.", room),
          .param = {}};
}

}  // namespace

void Service::SetAddress(std::string host, uint16_t port) {
  host_ = std::move(host);
  port_ = port;
}

std::optional<ApiError> Service::CheckHandover(const Generation& request) const {
  const HandoverOptions& handover = options_.handover;
  if (handover.role == Role::kBoth || handover.kind != HandoverKind::kBootstrap || request.handover.room)
    return std::nullopt;
  return ApiError{.status = 400,
                  .type = {},
                  .message = "Invalid request: Disaggregated request received without bootstrap room id.",
                  .param = "bootstrap_room"};
}

std::shared_ptr<Room> Service::RoomOf(uint64_t id) {
  std::shared_ptr<Room>& room = rooms_[id];
  if (!room) room = std::make_shared<Room>();
  return room;
}

// How many of the prompt's tokens were computed elsewhere; an error when that is not to be waited for any
// more. The client's leaving ends it too.
Service::Task<std::optional<ApiError>> Service::Receive(Exchange& exchange, Job& job) {
  const HandoverRequest& request = job.request.handover;
  const bool bootstrap = options_.handover.kind == HandoverKind::kBootstrap;
  if (options_.handover.role == Role::kPrefill ||
      !(bootstrap ? request.room.has_value() : request.from_other))
    co_return std::nullopt;
  std::optional<uint32_t> tokens;
  const bool complete =
      !request.host.empty() && request.port > 0 && (bootstrap || (request.blocks && !request.engine.empty()));
  if (complete) {
    FetchRequest fetch;
    fetch.method = "POST";
    fetch.url.host = request.host;
    fetch.url.port = std::to_string(request.port);
    fetch.url.path = "/engine/handover";
    fetch.body = bootstrap ? fmt::format(R"({{"room":{}}})", *request.room)
                           : fmt::format(R"({{"engine":{},"block":{}}})", conf::Quoted(request.engine),
                                         request.first_block);
    fetch.timeout = bootstrap ? options_.handover.wait_for : kTakeTimeout;
    gateway::net::AbortGroup group;
    exchange.OnGone([&group] { group.Abort(); });
    const auto answer = co_await gateway::net::http::Fetch(loop_, std::move(fetch), &group);
    exchange.OnGone([] {});
    if (answer.ok() && answer->status == 200) {
      const Json body = Json::parse(answer->body, nullptr, false);
      if (body.is_object()) tokens = body.value("tokens", 0U);
    }
  }
  if (exchange.gone()) {
    stats_.LeftHanging();
    co_return std::nullopt;
  }
  if (!tokens) {
    if (bootstrap) co_return TimedOut(*request.room);
    ++handovers_.recomputed;
    co_return std::nullopt;
  }
  ++handovers_.received;
  gateway::net::Sleep transfer(loop_.watchdog);
  co_await transfer.For(conf::Duration(
      static_cast<int64_t>(static_cast<double>(*tokens) / options_.handover.transfer_rate * 1e9)));
  for (Choice& choice : job.choices) choice.given_tokens = *tokens;
  co_return std::nullopt;
}

// What the job has computed is there for others. Of a room, until somebody has taken it.
Service::Task<std::optional<ApiError>> Service::Offer(Exchange& exchange, Job& job) {
  const HandoverRequest& request = job.request.handover;
  if (options_.handover.role != Role::kPrefill || job.choices.empty()) co_return std::nullopt;
  const uint32_t tokens = job.choices.front().prompt->tokens();
  if (options_.handover.kind == HandoverKind::kNixl) {
    if (!request.for_other) co_return std::nullopt;
    const uint32_t size = options_.profile.block_size;
    const uint32_t blocks = (tokens + size - 1) / size;
    const uint64_t first = held_.Hold(tokens, blocks, Now() + options_.handover.hold_for);
    ++handovers_.offered;
    fmt::format_to(std::back_inserter(job.kv_transfer_params),
                   R"({{"do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":"{}",)"
                   R"("remote_block_ids":[)",
                   engine_id_);
    for (uint32_t i = 0; i < blocks; ++i)
      fmt::format_to(std::back_inserter(job.kv_transfer_params), "{}{}", i > 0 ? "," : "", first + i);
    fmt::format_to(std::back_inserter(job.kv_transfer_params),
                   R"(],"remote_host":"{}","remote_port":{},"tp_size":1}})", host_, port_);
    co_return std::nullopt;
  }
  const std::shared_ptr<Room> room = RoomOf(*request.room);
  room->tokens = tokens;
  ++handovers_.offered;
  room->computed.Set();
  exchange.OnGone([&room] { room->left.Set(); });
  {
    const Alarm alarm(loop_.watchdog, options_.handover.wait_for, room->left);
    co_await room->left.Wait();
  }
  exchange.OnGone([] {});
  rooms_.erase(*request.room);
  if (room->taken || exchange.gone()) co_return std::nullopt;
  co_return TimedOut(*request.room);
}

// Another engine asks for a prompt: {"engine","block"} or {"room"}.
Service::Task<void> Service::HandOver(Exchange& exchange) {
  const Json asked = Json::parse(exchange.body(), nullptr, false);
  std::optional<uint32_t> tokens;
  if (asked.is_object() && asked.contains("room") && asked["room"].is_number_unsigned()) {
    const auto id = asked["room"].get<uint64_t>();
    const std::shared_ptr<Room> room = RoomOf(id);
    exchange.OnGone([&room] { room->computed.Set(); });
    {
      const Alarm alarm(loop_.watchdog, options_.handover.wait_for, room->computed);
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
  } else if (asked.is_object() && asked.value("engine", "") == engine_id_) {
    tokens = held_.Take(asked.value("block", uint64_t{0}), Now());
  }
  if (tokens) ++handovers_.taken;
  if (exchange.gone()) {
    exchange.CloseAfter();
  } else if (tokens) {
    co_await Reply(exchange, fmt::format(R"({{"tokens":{}}})", *tokens));
  } else {
    co_await Fail(exchange, Api::kHandover,
                  {.status = 404, .type = {}, .message = "No such prompt is held here.", .param = {}});
  }
}

}  // namespace tidegate_engine
