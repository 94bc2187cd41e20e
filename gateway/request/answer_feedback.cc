// answer_feedback: takes a caller's feedback on an answer, and returns the feedback given so far. The service
// records it in the ledger; this shard only reads the body and waits.
#include <fmt/format.h>

#include "gateway/feedback/service.h"
#include "gateway/request/answer.h"
#include "gateway/request/form_reader.h"
#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"

namespace gateway::stages {
namespace {

namespace limits = router::limits;
using net::http::Verb;

net::Task<feedback::Reply> AskFeedback(Exchange& x, feedback::Call call) {
  call.principal = x.identity.principal;
  net::Event done;
  feedback::Reply reply;
  Shard& shard = x.shard;
  shard.shared.feedback->Take(std::move(call), [&shard, &done, &reply](feedback::Reply given) {
    // Runs on the service's thread; this frame waits for the post.
    shard.loop.Post([&done, &reply, given = std::move(given)] {
      reply = given;
      done.Set();
    });
  });
  co_await done.Wait();
  co_return reply;
}

// What a body or a query asks for, or the error that says what is wrong with it.
feedback::Result<feedback::Call> CallOf(Exchange& x) {
  feedback::Call call;
  const net::http::Head& head = x.client.head();
  if (head.method == Verb::post) {
    auto given = feedback::ReadFeedback(std::string(x.client.connection().body()));
    if (auto* const error = std::get_if<api::ApiError>(&given)) return std::move(*error);
    call.given = std::get<feedback::GivenFeedback>(std::move(given));
    return call;
  }
  const size_t query = head.target.find('?');
  auto request = feedback::ReadFeedbackQuery(
      query == std::string_view::npos ? std::string_view() : std::string_view(head.target).substr(query + 1));
  if (auto* const error = std::get_if<api::ApiError>(&request)) return std::move(*error);
  call.request = std::get<std::string>(std::move(request));
  return call;
}

}  // namespace

StageResult BringsFeedback(Exchange& x) {
  return x.identity.spec->api == router::Api::kFeedback ? StageResult::kWaits : StageResult::kContinue;
}

net::Task<StageResult> AnswerFeedback(Exchange& x) {
  const net::http::Head& head = x.client.head();
  const bool has_body = head.chunked || head.content_length.value_or(0) > 0;
  if (head.method != Verb::post && head.method != Verb::get) {
    x.client.SetReusable(!has_body);
    co_return x.Fail(api::Code::kMethodNotAllowed,
                     fmt::format("{} does not take the method {}; use POST or GET",
                                 head.target.substr(0, head.target.find('?')), head.method_text));
  }
  if (x.shard.shared.feedback == nullptr || x.shard.shared.disk_low.load(std::memory_order_relaxed)) {
    x.client.SetReusable(!has_body);
    co_return x.Fail(api::Code::kLedgerUnavailable, "the ledger cannot record feedback now; try again");
  }
  // It counts as one of the caller's requests, even if it fails.
  limits::ReserveRequest ask;
  ask.output_tokens_bound = 0;
  limits::ReserveResult outcome = limits::Reserve(x.identity.principal->node, {}, ask, x.at.started);
  x.grant.rates = limits::Rates(x.identity.principal->node, {}, x.at.started);
  if (const auto* const refusal = std::get_if<limits::Refusal>(&outcome)) {
    x.client.SetReusable(!has_body);
    co_return RefuseByLimit(x, *refusal);
  }
  limits::Reservation place = std::move(std::get<limits::Grant>(outcome).reservation);
  place.MarkForwarded();
  const auto status = co_await x.client.connection().ReadBody(feedback::kMaxBody);
  if (status != net::http::ServerConnection::Status::kOk) {
    x.client.SetReusable(false);
    co_return x.Fail(BodyFailure(status, feedback::kMaxBody).error);
  }
  auto call = CallOf(x);
  if (auto* const error = std::get_if<api::ApiError>(&call)) co_return x.Fail(std::move(*error));
  const feedback::Reply reply = co_await AskFeedback(x, std::get<feedback::Call>(std::move(call)));
  if (reply.error) co_return x.Fail(*reply.error);
  co_await SendOwn(x, 200, "application/json", reply.json);
  co_return StageResult::kAnswered;
}

}  // namespace gateway::stages
