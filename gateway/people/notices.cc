#include "gateway/people/notices.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/http/fetch.h"
#include "plugins/auth/hmac.h"

namespace gateway {
namespace {

using nlohmann::ordered_json;

constexpr conf::Duration kPatience = std::chrono::seconds(5);
constexpr conf::Duration kFirstPause = std::chrono::seconds(1);  // doubles
constexpr size_t kMaxAnswer = 64 << 10;

}  // namespace

Notices::Notices(net::Loop& loop, std::function<std::optional<config::Webhook>()> webhook)
    : loop_(loop), webhook_(std::move(webhook)), pause_(loop.watchdog) {}

void Notices::Stop() {
  stopped_ = true;
  pause_.Cancel();
  posts_.Abort();
}

void Notices::Add(const Grants::Notice& notice) {
  ordered_json body = {{"actor", notice.actor.empty() ? "control" : notice.actor}};
  if (notice.request != nullptr) {
    body["request"] = conf::ParseOrderedJson(EncodeRequest(*notice.request));
    body["in_words"] = InWords(notice.request->wants);
  }
  if (notice.grant != nullptr) {
    body["grant"] = conf::ParseOrderedJson(EncodeGrant(*notice.grant));
    body["in_words"] = InWords(notice.grant->gives);
  }
  Add(notice.event, conf::DumpJson(body));
}

void Notices::Add(std::string_view event, std::string body) {
  if (stopped_ || !webhook_()) return;
  if (waiting_.size() >= kMaxWaiting) {
    ++dropped_;
    log::Warn("a notice is dropped: too many wait for the webhook", {{"event", event}});
    return;
  }
  ordered_json json = {{"event", event}, {"time", conf::FormatTime(net::Now())}};
  const ordered_json members = conf::ParseOrderedJson(body);
  if (members.is_object()) json.update(members);
  waiting_.push_back({std::string(event), NewId("no_"), conf::DumpJson(json)});
  if (!std::exchange(sending_, true)) loop_.tasks.Spawn(Send());
}

net::Task<void> Notices::Send() {
  while (!stopped_ && !waiting_.empty()) {
    const Waiting notice = std::move(waiting_.front());
    waiting_.pop_front();
    absl::Status sent;
    conf::Duration pause = kFirstPause;
    for (int attempt = 0; attempt < kAttempts && !stopped_; ++attempt, pause *= 2) {
      const std::optional<config::Webhook> webhook = webhook_();
      if (!webhook) break;  // a reload took it away
      sent = co_await Post(notice, *webhook);
      if (sent.ok() || attempt + 1 == kAttempts) break;
      co_await pause_.For(pause);
    }
    if (sent.ok() || stopped_) continue;
    ++dropped_;
    log::Warn("a notice is given up: the webhook does not accept it",
              {{"event", notice.event}, {"id", notice.id}, {"why", conf::Std(sent.message())}});
  }
  sending_ = false;
}

net::Task<absl::Status> Notices::Post(const Waiting& notice, const config::Webhook& webhook) {
  net::http::FetchRequest request;
  request.method = "POST";
  request.url = {webhook.url.tls(), webhook.url.host, std::to_string(webhook.url.port), webhook.url.path, ""};
  request.timeout = kPatience;
  request.max_response_bytes = kMaxAnswer;
  request.body = notice.body;
  if (webhook.url.tls()) {
    const config::ClientTls& tls = webhook.tls;
    auto context = net::TlsContext::Client({tls.ca, tls.certificate, tls.key, !tls.insecure_skip_verify});
    if (!context.ok()) co_return context.status();
    request.tls = *std::move(context);
    request.server_name = tls.server_name;
  }
  request.headers = {{"content-type", "application/json"},
                     {"idempotency-key", notice.id},
                     {"x-tidegate-event", notice.event}};
  if (!webhook.secret.empty()) {
    const std::string timestamp = fmt::format("{}", conf::ToUnixMicros(net::Now()) / 1'000'000);
    request.headers.emplace_back("x-tidegate-timestamp", timestamp);
    request.headers.emplace_back(
        "x-tidegate-signature",
        "v1=" + plugins::auth::HmacSha256(webhook.secret.Reveal(), timestamp + "." + request.body));
  }
  const auto answer = co_await net::http::Fetch(loop_, std::move(request), &posts_);
  if (!answer.ok()) co_return answer.status();
  if (answer->status >= 200 && answer->status < 300) co_return absl::OkStatus();
  co_return absl::UnavailableError(conf::Abseil(fmt::format("it answered {}", answer->status)));
}

}  // namespace gateway
