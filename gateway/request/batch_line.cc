#include "gateway/request/batch_line.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "conf/text.h"
#include "gateway/net/http/client_connection.h"
#include "gateway/net/transport.h"
#include "gateway/net/watchdog.h"

namespace gateway {
namespace {

using net::http::ClientConnection;

constexpr std::string_view kOwnAddress = "batch";  // the client's address in the ledger

// A request is settled a moment after its answer is whole; or never, if the gateway stops.
constexpr conf::Duration kSettlePause = std::chrono::milliseconds(5);
constexpr int kMostSettlePauses = 40;

struct LineEnd {
  bool known = false;
  std::optional<EndedRequest> request;
};

std::string RenderLineHead(const batches::LineCall& call) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nx-request-id: {}\r\n"
      "content-length: {}\r\nconnection: close\r\n\r\n",
      call.target, call.request_id, call.body.size());
}

void TakeHead(const net::http::Head& head, batches::LineAnswer& answer) {
  answer.status = head.status;
  answer.request_id = head.Find("x-request-id");
  if (answer.request_id.empty()) answer.request_id = head.Find("request-id");  // Anthropic's name
  if (const std::string_view retry = head.Find("x-should-retry"); !retry.empty())
    answer.should_retry = retry == "true";
  if (const auto wait = conf::ReadNumber<uint32_t>(head.Find("retry-after-ms")))
    answer.retry_after = std::chrono::milliseconds(*wait);
}

net::Task<batches::LineAnswer> SendAndReceive(const batches::LineCall& call, ClientConnection& connection) {
  batches::LineAnswer answer;
  connection.BeginExchange();
  const std::string head = RenderLineHead(call);
  const std::array<net::ConstBuffer, 2> parts{net::AsBuffer(head), net::AsBuffer(call.body)};
  co_await connection.Write(parts);  // its result is ignored: a refusal may come before the body was read
  if (co_await connection.ReadHead(net::http::HeadLimits{}) != ClientConnection::Status::kOk)
    co_return answer;
  TakeHead(connection.head(), answer);
  while (true) {
    answer.body.append(connection.payload());
    connection.Take(connection.payload().size());
    answer.too_large = answer.body.size() > kMaxBatchAnswer;
    if (answer.too_large || connection.done()) co_return answer;
    if (co_await connection.ReadSome() != ClientConnection::Status::kOk) {
      answer.status = 0;  // cut off
      co_return answer;
    }
  }
}

}  // namespace

net::Task<batches::LineAnswer> SendBatchLine(net::Loop& loop, ServeOwnRequest serve, batches::LineCall call) {
  auto ends = net::ConnectedPair();
  if (!ends.ok()) co_return batches::LineAnswer();
  auto stream = net::StreamOf(loop.io, std::move(ends->first), "batch");
  if (!stream.ok()) co_return batches::LineAnswer();
  const auto connection = std::make_shared<ClientConnection>(loop, *std::move(stream));
  call.on_begun([weak = std::weak_ptr(connection)] {
    if (const std::shared_ptr<ClientConnection> running = weak.lock()) running->Abort();
  });
  const auto end = std::make_shared<LineEnd>();
  serve(std::move(ends->second), OnBehalf{.tenant = call.tenant,
                                          .actor = call.key,
                                          .address = std::string(kOwnAddress),
                                          .ended =
                                              [&loop, end](std::optional<EndedRequest> request) {
                                                loop.Post([end, request = std::move(request)] {
                                                  end->known = true;
                                                  end->request = request;
                                                });
                                              },
                                          .of_batch = true});
  batches::LineAnswer answer = co_await SendAndReceive(call, *connection);
  connection->Abort();
  net::Sleep pause(loop.watchdog);
  for (int i = 0; answer.status != 0 && !end->known && i < kMostSettlePauses; ++i)
    co_await pause.For(kSettlePause);
  if (end->request) {
    answer.use = {.total_us = end->request->total_us,
                  .queue_us = end->request->queue_us,
                  .cost_micro_usd = end->request->counts.cost_micro_usd};
  }
  co_return answer;
}

}  // namespace gateway
