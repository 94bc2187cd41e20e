#include "gateway/request/form_reader.h"

#include <fmt/format.h>

#include "gateway/net/clock.h"

namespace gateway {

using ledger::EndReason;
using Status = net::http::ServerConnection::Status;

Failure BodyFailure(Status status, uint64_t most) {
  switch (status) {
    case Status::kTooLarge:
      return {api::Make(api::Code::kRequestTooLarge,
                        fmt::format("the body is larger than the {} bytes allowed", most)),
              EndReason::kBadRequest};
    case Status::kTimedOut:
      return {api::Make(api::Code::kRequestTimeout, "the body did not arrive in time"), EndReason::kTimedOut};
    case Status::kMalformed:
      return {api::Make(api::Code::kBadRequest, "the body's chunked coding is broken"),
              EndReason::kBadRequest};
    default:  // a client that has closed only its sending side can still read this
      return {api::Make(api::Code::kIncompleteBody, "the connection ended before the whole body arrived"),
              EndReason::kClientGone};
  }
}

Failure RoomFailure(const BodyMemory::Hold& room) {
  constexpr conf::Duration kRetryAfter = std::chrono::seconds(1);
  Failure failure;
  switch (room.refusal()) {
    case BodyMemory::Refusal::kTenantBytes:
      failure.error =
          api::Make(api::Code::kBodyMemoryLimit,
                    fmt::format("the request bodies of {} use all the memory that this tenant may use",
                                room.refusing_tenant()));
      failure.error.limit = room.refusing_tenant() + "/body_memory";
      break;
    case BodyMemory::Refusal::kProcess:
    case BodyMemory::Refusal::kNone:
      failure.error = api::Make(api::Code::kMemoryExhausted,
                                "request bodies use all the memory that this gateway has for them");
      failure.error.limit = "server/body_memory";
      break;
  }
  failure.error.retry_after = kRetryAfter;
  return failure;
}

net::Task<bool> FormReader::Next(std::string_view& piece) {
  const conf::TimePoint before = net::Now();
  const Status status = co_await client_.connection().ReadBodyPiece(piece);
  at_.body_wait += net::Now() - before;
  const bool fits = body_.form_text.size() + piece.size() <= most_;
  if (status != Status::kOk || !fits) {
    client_.SetReusable(false);  // the rest of the body is still to come
    cells_.bad_bodies.Add();
    failure_ = BodyFailure(fits ? status : Status::kTooLarge, most_);
    co_return false;
  }
  if (!body_.room->GrowTo(body_.form_text.size() + piece.size())) {
    client_.SetReusable(false);
    failure_ = RoomFailure(*body_.room);
    co_return false;
  }
  body_.whole = piece.empty();
  body_.form_text.append(piece);
  const auto state = body_.whole ? body_.form->Finish() : body_.form->Feed(piece);
  if (state != router::MultipartScanner::State::kFailed) co_return true;
  client_.SetReusable(body_.whole);
  failure_ = Failure{api::FromFacts(body_.form->error()), EndReason::kBadRequest};
  co_return false;
}

}  // namespace gateway
