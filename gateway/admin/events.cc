// The feed of events, for whoever follows it.
#include "gateway/admin/event_feed.h"
#include "gateway/admin/handlers.h"

namespace gateway::admin {
namespace {

// Pages that are open do not keep a session alive.
EventFeed::Identified IdentifiedBy(const Operations& operations, const Call& call) {
  return [&operations, head = call.head, secure = call.secure](conf::TimePoint now) -> std::optional<Caller> {
    const std::shared_ptr<const Runtime> runtime = operations.runtime();
    const std::shared_ptr<const plugins::auth::KeyTable> keys = operations.shared->keys->Table();
    std::variant<Caller, api::ApiError> caller = Identify(*head,
                                                          {.config = runtime->config(),
                                                           .keys = *keys,
                                                           .sessions = operations.sessions,
                                                           .tokens = operations.tokens(),
                                                           .secure = secure,
                                                           .projects = operations.projects,
                                                           .prolongs = false},
                                                          now);
    if (auto* const found = std::get_if<Caller>(&caller)) return std::move(*found);
    return std::nullopt;
  };
}

}  // namespace

Answer FollowEvents(const Operations& operations, const Call& call) {
  EventFeed* const feed = operations.events;
  if (feed == nullptr)
    return Refuse(api::Code::kStarting, "the gateway has just started; try again in a moment",
                  call.request_id);
  if (const std::optional<api::ApiError> full = feed->WhyFull(call.caller.actor))
    return Refuse(*full, call.request_id);
  std::string after = call.Query("after");
  // A browser that connects again says itself what it has seen last, later than the address that it began with.
  if (const std::string_view last = call.head->Find("last-event-id"); !last.empty()) after = last;
  Answer answer;
  answer.content_type = "text/event-stream";
  answer.fields.emplace_back("x-accel-buffering", "no");
  answer.stream = [feed, call, after, identify = IdentifiedBy(operations, call)](
                      net::http::Exchange& exchange, net::http::Headers headers) {
    return feed->Follow(exchange, std::move(headers), call, after, identify);
  };
  return answer;
}

}  // namespace gateway::admin
