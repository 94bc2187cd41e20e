#include "gateway/admin/playground.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>

#include "conf/text.h"
#include "gateway/admin/answers/playground.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/scope.h"
#include "gateway/net/clock.h"
#include "gateway/net/http/client_connection.h"

namespace gateway::admin {
namespace {

using net::http::ClientConnection;
namespace ondemand = simdjson::ondemand;

constexpr size_t kMaxRefusal = 1u << 20;  // bytes of an answer that is no stream
constexpr conf::Duration kAskEvery = std::chrono::seconds(1);
constexpr std::string_view kEventStream = "text/event-stream";

std::optional<int64_t> MillisOf(int64_t micros) {
  return micros < 0 ? std::nullopt : std::optional(micros / 1000);
}

std::string SummaryEvent(const EndedRequest& ended, const std::string& tenant) {
  const answers::PlaygroundSummary summary{.request_id = ended.request,
                                           .tenant = tenant,
                                           .reason = std::string(Name(ended.reason)),
                                           .error = answers::TextOrNull(ended.error),
                                           .replica = answers::TextOrNull(ended.replica),
                                           .queue_ms = MillisOf(ended.queue_us),
                                           .ttft_ms = MillisOf(ended.counts.ttft_us),
                                           .duration_ms = MillisOf(ended.total_us),
                                           .input_tokens = ended.counts.input,
                                           .cached_tokens = ended.counts.cached,
                                           .output_tokens = ended.counts.output,
                                           .tokens_from = std::string(Name(ended.counts.source)),
                                           .cost_micro_usd = ended.counts.cost_micro_usd};
  return fmt::format("event: summary\ndata: {}\n\n", conf::ToJsonText(summary));
}

// What the caller sees of the head of the answer.
bool IsPassedOn(std::string_view name) {
  return name.starts_with("x-tidegate-") || name.starts_with("x-ratelimit-") || name == "retry-after" ||
         name == "retry-after-ms" || name == "x-should-retry";
}

std::string RenderHead(const Playground::Question& question) {
  return fmt::format(
      "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
      "x-request-id: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
      question.call_id, question.request.size());
}

Answer Broken(const std::string& call_id) {
  return Refuse(api::Code::kInternalError, "the gateway's connection to itself broke", call_id);
}

}  // namespace

// One of the requests that run at once.
class Playground::Place {
 public:
  Place(Playground& playground, std::string actor) : playground_(playground), actor_(std::move(actor)) {
    ++playground_.running_;
    ++playground_.running_of_[actor_];
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    --playground_.running_;
    const auto of = playground_.running_of_.find(actor_);
    if (--of->second == 0) playground_.running_of_.erase(of);
  }

 private:
  Playground& playground_;
  const std::string actor_;
};

// One request and the answer to it.
class Playground::Relay {
 public:
  Relay(Playground& playground, Question question, std::unique_ptr<net::Stream> stream)
      : place_(playground, question.actor),
        question_(std::move(question)),
        connection_(playground.loop_, std::move(stream)) {}

  void Abort() { connection_.Abort(); }

  OnBehalf Caller(net::Loop& loop) const {
    return {.tenant = question_.tenant,
            .actor = question_.actor,
            .address = question_.address,
            .ended = [&loop, outcome = outcome_](std::optional<EndedRequest> how) {
              loop.Post([outcome, how = std::move(how)] {
                outcome->how = how;
                outcome->told.Set();
              });
            }};
  }

  // Sends the request and reads the head of the answer; `self` is this, which the answer keeps.
  net::Task<Answer> Begin(std::shared_ptr<Relay> self) {
    connection_.BeginExchange();
    const std::string head = RenderHead(question_);
    const std::array<net::ConstBuffer, 2> parts{net::AsBuffer(head), net::AsBuffer(question_.request)};
    co_await connection_.Write(parts);  // a refusal may come before the body was taken
    if (co_await connection_.ReadHead(net::http::HeadLimits{}) != ClientConnection::Status::kOk)
      co_return Broken(question_.call_id);
    const net::http::Head& answered = connection_.head();
    Answer answer;
    answer.status = answered.status;
    for (const net::http::Field& field : answered.fields) {
      std::string name(field.name);
      std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c | 0x20 : c; });
      if (IsPassedOn(name)) answer.fields.emplace_back(std::move(name), field.value);
    }
    answer.request_id = answered.Find("x-request-id");
    if (answered.Find(net::http::FieldId::content_type).starts_with(kEventStream)) {
      answer.content_type = kEventStream;
      answer.stream = [self = std::move(self)](net::http::Exchange& exchange, net::http::Headers headers) {
        return self->Send(exchange, std::move(headers));
      };
      co_return answer;
    }
    answer.body = co_await ReadWhole();
    co_return connection_.done() ? std::move(answer) : Broken(question_.call_id);
  }

  net::Task<void> Send(net::http::Exchange& exchange, net::http::Headers headers) {
    if (co_await exchange.Start(200, headers) && co_await Pass(exchange)) {
      co_await exchange.Finish();
    } else {
      exchange.Reset();  // the caller must see that it broke off
    }
  }

 private:
  // False: it broke off.
  net::Task<bool> Pass(net::http::Exchange& exchange) {
    conf::TimePoint asked = net::Now();
    while (true) {
      if (const std::string_view piece = connection_.payload(); !piece.empty()) {
        if (!co_await exchange.Write(piece)) co_return false;
        connection_.Take(piece.size());
      }
      if (connection_.done()) break;
      if (co_await connection_.ReadSome() != ClientConnection::Status::kOk) co_return false;
      if (const conf::TimePoint now = net::Now(); now >= asked + kAskEvery) {
        asked = now;
        if (!question_.may_go_on()) co_return co_await exchange.Write(EndOfSession());
      }
    }
    co_await outcome_->told.Wait();
    if (!outcome_->how) co_return false;
    co_return co_await exchange.Write(SummaryEvent(*outcome_->how, question_.tenant));
  }

  struct Outcome {
    net::Event told;
    std::optional<EndedRequest> how;
  };

  net::Task<std::string> ReadWhole() {
    std::string body;
    while (true) {
      body.append(connection_.payload());
      connection_.Take(connection_.payload().size());
      if (connection_.done() || body.size() > kMaxRefusal) co_return body;
      if (co_await connection_.ReadSome() != ClientConnection::Status::kOk) co_return body;
    }
  }

  std::string EndOfSession() const {
    return api::RenderStreamError(api::Protocol::kOpenAi,
                                  api::Make(api::Code::kKeyExpired, "your session has ended; sign in again"),
                                  question_.call_id);
  }

  const Place place_;
  const Question question_;
  ClientConnection connection_;
  const std::shared_ptr<Outcome> outcome_ = std::make_shared<Outcome>();
};

net::Task<Answer> Playground::Ask(Question question) {
  const auto of_caller = running_of_.find(question.actor);
  if (running_ >= kMost || (of_caller != running_of_.end() && of_caller->second >= kMostOfCaller)) {
    co_return Refuse(api::Code::kConcurrencyLimit,
                     fmt::format("{} answers of the playground are running already; stop one, or wait "
                                 "until one ends",
                                 running_ >= kMost ? kMost : kMostOfCaller),
                     question.call_id);
  }
  auto ends = net::ConnectedPair();
  if (!ends.ok()) co_return Broken(question.call_id);
  auto stream = net::StreamOf(loop_.io, std::move(ends->first), "playground");
  if (!stream.ok()) co_return Broken(question.call_id);
  const auto on_gone = question.on_gone;
  const auto relay = std::make_shared<Relay>(*this, std::move(question), *std::move(stream));
  on_gone([weak = std::weak_ptr(relay)] {
    if (const std::shared_ptr<Relay> running = weak.lock()) running->Abort();
  });
  serve_(std::move(ends->second), relay->Caller(loop_));
  co_return co_await relay->Begin(relay);
}

std::variant<PlaygroundBody, std::vector<FieldProblem>> ReadPlaygroundBody(std::string_view text) {
  PlaygroundBody body;
  std::vector<FieldProblem> problems;
  bool has_tenant = false;
  bool streams = false;
  const auto refuse = [&](std::string field, std::string why) {
    problems.push_back({std::move(field), std::move(why)});
  };
  const simdjson::padded_string padded(text);
  ondemand::parser parser;
  ondemand::document document;
  ondemand::object members;
  bool broken =
      parser.iterate(padded).get(document) != simdjson::SUCCESS || document.get_object().get(members);
  if (!broken) {
    for (auto member : members) {
      std::string_view name;
      ondemand::value value;
      broken = member.unescaped_key().get(name) != simdjson::SUCCESS ||
               member.value().get(value) != simdjson::SUCCESS;
      if (broken) break;
      if (name == "tenant") {
        std::string_view tenant;
        if (has_tenant) refuse("tenant", "is given twice");
        if (value.get_string().get(tenant) != simdjson::SUCCESS) {
          refuse("tenant", "must be a string");
          break;  // the reader stands nowhere after a wrong type
        }
        has_tenant = true;
        body.tenant = tenant;
      } else if (name == "request") {
        ondemand::object request;
        std::string_view raw;
        if (!body.request.empty()) refuse("request", "is given twice");
        if (value.get_object().get(request) != simdjson::SUCCESS) {
          refuse("request", "must be an object");
          break;
        }
        bool stream = false;
        streams =
            request.find_field_unordered("stream").get_bool().get(stream) == simdjson::SUCCESS && stream;
        broken =
            request.reset().error() != simdjson::SUCCESS || request.raw_json().get(raw) != simdjson::SUCCESS;
        if (broken) break;
        body.request = raw;
      } else {
        refuse(std::string(name), "is not a member here; known: tenant, request");
        break;
      }
    }
  }
  const char* rest = nullptr;
  const bool more = !broken && document.current_location().get(rest) == simdjson::SUCCESS;
  if (broken || (problems.empty() && more)) {
    return std::vector<FieldProblem>{{"", "the body must be one JSON object"}};
  }
  if (problems.empty() && body.request.empty()) refuse("request", "is missing");
  if (problems.empty() && !streams) refuse("request.stream", "must be true: the playground streams answers");
  if (!problems.empty()) return problems;
  return body;
}

namespace {

// The tenant that pays: the one named, or the only one that the caller may use. Otherwise the refusal.
std::variant<std::string, Answer> PayerOf(const Call& call, const std::string& named) {
  std::vector<std::string_view> usable;
  for (const TenantRuntime& tenant : call.runtime->tenants()) {
    if (call.May(Permission::kUsePlayground, tenant.path)) usable.push_back(tenant.path);
  }
  if (usable.empty()) {
    return Refuse(api::Code::kPermissionDenied, "none of your tenants is configured on this gateway",
                  call.request_id);
  }
  if (named.empty() && usable.size() == 1) return std::string(usable.front());
  const std::string path = PathOfTenant(call, named);
  if (!named.empty() && std::ranges::find(usable, path) != usable.end()) return path;
  std::ranges::sort(usable);
  constexpr size_t kNamed = 20;
  std::string yours;
  for (size_t i = 0; i < std::min(usable.size(), kNamed); ++i) {
    yours += yours.empty() ? "" : ", ";
    yours += usable[i];
  }
  if (usable.size() > kNamed) yours += fmt::format(", and {} more", usable.size() - kNamed);
  if (named.empty()) {
    return Refuse(api::Code::kInvalidValue,
                  std::vector<FieldProblem>{{"tenant", fmt::format("say which tenant pays: {}", yours)}},
                  call.request_id);
  }
  return Refuse(api::Code::kPermissionDenied,
                fmt::format("the tenant \"{}\" is not one that you may use; you may use: {}", named, yours),
                call.request_id);
}

// Whether the session or the key by which the caller came still works.
bool StillIn(const Operations& operations, const Caller& caller) {
  if (caller.kind == Caller::Kind::kPerson)
    return operations.sessions != nullptr && operations.sessions->IsOpen(caller.session, net::Now());
  if (caller.kind != Caller::Kind::kKey) return true;
  const std::shared_ptr<const plugins::auth::KeyTable> keys = operations.shared->keys->Table();
  const plugins::auth::KeyRecordPtr* const key = keys->Find(caller.actor);
  return key != nullptr && !(*key)->revoked_at;
}

}  // namespace

net::Task<Answer> AskModel(const Operations& operations, const Call& call) {
  std::variant<PlaygroundBody, std::vector<FieldProblem>> read = ReadPlaygroundBody(call.text);
  if (const auto* const problems = std::get_if<std::vector<FieldProblem>>(&read))
    co_return Refuse(api::Code::kInvalidValue, *problems, call.request_id);
  PlaygroundBody body = std::get<PlaygroundBody>(std::move(read));
  std::variant<std::string, Answer> payer = PayerOf(call, body.tenant);
  if (Answer* const refused = std::get_if<Answer>(&payer)) co_return std::move(*refused);
  if (operations.playground == nullptr)
    co_return Refuse(api::Code::kConflict, "this gateway serves no requests", call.request_id);
  co_return co_await operations.playground->Ask(
      {.tenant = std::get<std::string>(std::move(payer)),
       .actor = call.caller.actor,
       .address = call.address,
       .request = std::move(body.request),
       .call_id = call.request_id,
       .on_gone = call.on_gone,
       .may_go_on = [&operations, caller = call.caller] { return StillIn(operations, caller); }});
}

}  // namespace gateway::admin
