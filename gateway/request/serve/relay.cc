#include "gateway/request/serve/relay.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "conf/byte_order_mark.h"
#include "conf/find.h"
#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/api/answer_member.h"
#include "gateway/api/anthropic.h"
#include "gateway/api/chat.h"
#include "gateway/api/usage_scan.h"
#include "gateway/net/clock.h"
#include "gateway/net/sse.h"
#include "gateway/request/admit.h"
#include "gateway/request/answer.h"
#include "gateway/request/charge.h"
#include "gateway/request/chunk_size.h"
#include "gateway/request/heartbeat.h"
#include "gateway/request/serve/hang_watch.h"
#include "gateway/request/serve/translator.h"
#include "gateway/request/stream_tally.h"
#include "gateway/request/text_count.h"
#include "gateway/shard/shard.h"

namespace gateway {
namespace {

using net::AsBuffer;
using net::ConstBuffer;
using net::http::ClientConnection;
using net::http::FieldId;
using router::Event;
using Kind = RelayEnd::Kind;
using Status = ClientConnection::Status;

// An answer up to this size is read completely and sent in one piece.
constexpr size_t kWholeAnswer = 256 * 1024;
// No larger answer is looked at for an error in its place.
constexpr size_t kMaxErrorAnswer = 64 * 1024;
// A larger event is an error.
constexpr size_t kMaxEvent = 8u << 20;
// After the last event, a replica must end its message within this time.
constexpr conf::Duration kEndOfMessage = std::chrono::seconds(2);

void TakeUsage(Exchange& x, const std::optional<api::Usage>& usage) {
  if (!usage) return;
  x.outcome.counts.input = usage->input;
  x.outcome.counts.cached = x.delivery.transfer ? x.delivery.transfer->CachedOf(*usage) : usage->cached_input;
  x.outcome.counts.output = usage->output;
  x.outcome.counts.source = ledger::TokenSource::kUpstream;
  x.outcome.reasoning = usage->reasoning;
  x.outcome.total_alone = usage->total_alone;
  x.outcome.cache_written = usage->cache_written;
  if (usage->audio_ms > 0) x.outcome.audio_ms = usage->audio_ms;
}

// The API of the replica's answer, which may be translated for the client.
router::Api AnsweringApi(const Exchange& x) {
  return x.delivery.upstream->carry() == Carry::kAsIs ? x.identity.spec->api : router::Api::kChatCompletions;
}

bool MakesResponses(const Exchange& x) {
  return x.identity.spec->api == router::Api::kResponses && x.delivery.upstream->carry() == Carry::kAsIs;
}

// Whether the engine answered with a Responses object that tells why its response failed.
bool IsFailedResponse(const Exchange& x, std::string_view body) {
  if (!MakesResponses(x)) return false;
  const std::optional<router::ByteRange> status = api::FindAnswerMember(body, "status");
  return status && status->In(body) == "\"failed\"";
}

void CountShown(Exchange& x, std::string_view body) {
  TextCount text(StreamTally::FormOf(AnsweringApi(x)));
  if (MakesResponses(x)) {
    text.AddOutput(body);  // the object repeats its request, too
  } else {
    text.Add(body);
  }
  x.outcome.text_bytes = text.bytes();
  x.outcome.text_events = text.events();
}

// Counts the visible text of a whole answer if the answer reports no usage or no output, and also if it reports
// reasoning: the count shows whether the engine hides it.
void CountWhole(Exchange& x, std::string_view body) {
  const bool reported = x.outcome.counts.source == ledger::TokenSource::kUpstream;
  if (reported && x.outcome.reasoning == 0 && x.outcome.counts.output > 0) return;
  if (x.identity.spec->bound.empty()) {
    if (!reported) x.CountBytes(0);
    return;
  }
  CountShown(x, body);
  if (reported) return;
  if (x.outcome.text_bytes > 0 || IsFailedResponse(x, body)) return x.CountText();
  x.CountBytes(body.size());
}

// The tokens that a client is told in an answer that the gateway writes: those that the ledger will have.
api::Usage UsageToTell(Exchange& x) {
  if (x.outcome.counts.source == ledger::TokenSource::kUpstream) x.CompleteReport();
  return {.input = x.outcome.counts.input,
          .cached_input = x.HidesCached() ? 0 : x.outcome.counts.cached,
          .output = x.outcome.counts.output,
          .reasoning = x.outcome.reasoning};
}

// Reads the usage of an answer while its pieces pass.
class PieceMeter {
 public:
  PieceMeter(Exchange& x, bool hide_cached) : x_(x), scan_(hide_cached) {}
  ~PieceMeter() { RecordUse(); }
  PieceMeter(const PieceMeter&) = delete;
  PieceMeter& operator=(const PieceMeter&) = delete;

  void Pass(char* data, size_t n) {
    scan_.Pass(data, n);
    bytes_ += n;
  }
  // Called when the answer has ended or broken off.
  void RecordUse() {
    x_.outcome.finish = scan_.finish();
    const std::optional<api::Usage>& usage = scan_.usage();
    if (usage && (usage->output > 0 || x_.identity.spec->bound.empty())) {
      TakeUsage(x_, usage);
    } else {
      x_.CountBytes(bytes_);
      if (usage && usage->total_alone) {
        x_.DivideTotal(usage->input);
      } else if (usage && usage->input > 0) {
        x_.outcome.counts.input = usage->input;
      }
    }
    x_.RecordProgress();
  }

 private:
  Exchange& x_;
  api::UsageScan scan_;
  uint64_t bytes_ = 0;
};

RelayEnd Whole(Exchange& x) {
  x.outcome.reason =
      x.outcome.finish == api::Finish::kLength ? ledger::EndReason::kLength : ledger::EndReason::kDone;
  return {Kind::kWhole, Event::Of(Event::Kind::kCompleted)};
}

RelayEnd ClientLeft() {
  return {Kind::kClientLeft, Event::Of(Event::Kind::kClientGone)};
}

RelayEnd Broken(Status status, std::string_view message) {
  const bool late = status == Status::kTimedOut;
  return {Kind::kBroken, Event::Of(late ? Event::Kind::kTimedOut : Event::Kind::kBroken), message};
}

// Ends an answer that exceeds a limit of the gateway. The replica is not at fault.
RelayEnd GiveUp(Exchange& x, api::Code code, std::string message) {
  x.Fail(api::Make(code, std::move(message)), ledger::EndReason::kTimedOut);
  return {Kind::kGivenUp, Event::Of(Event::Kind::kClientGone)};
}

// Tells the attempt that the client is about to get the first byte: from now on no other replica can be tried.
void NoteFirstByte(Exchange& x, conf::TimePoint now) {
  x.delivery.attempt->Resume(Event::Of(Event::Kind::kFirstByte), now);
}

api::PublicModelName PublicNameOf(const Exchange& x) {
  return api::PublicModelName(x.body.facts.model.view());
}

// Remembers which tenant made a stored response: only that tenant may continue it.
void NoteOwner(const Exchange& x, std::string_view response) {
  if (!response.empty()) x.shard.shared.response_owners.Note(response, x.identity.tenant());
}

// --- Whole answers ---

net::Task<RelayEnd> RelayRefusal(Exchange& x) {
  const UpstreamRefusal& refusal = x.delivery.upstream->refusal();
  const RelayEnd end{Kind::kWhole, Event::Of(Event::Kind::kCompleted)};
  x.outcome.status = refusal.status;
  const auto reason = refusal.status < 500 && refusal.status != 429 ? ledger::EndReason::kBadRequest
                                                                    : ledger::EndReason::kUpstreamFailed;
  // The client's credentials are valid. The replica refused the gateway's, which the operator must correct.
  if (refusal.status == 401 || refusal.status == 403) {
    api::ApiError error =
        api::Make(api::Code::kUpstreamError, "the replica does not accept the gateway's credentials");
    error.should_retry = false;
    x.Fail(std::move(error), ledger::EndReason::kUpstreamFailed);
    co_return end;
  }
  if (refusal.status < 400) {
    api::ApiError error = api::Make(
        api::Code::kUpstreamError,
        fmt::format(
            "the replica redirects its calls (status {}), which the gateway does not follow: the URL of "
            "its endpoint has to be the one that answers",
            refusal.status));
    error.should_retry = false;
    x.Fail(std::move(error), ledger::EndReason::kUpstreamFailed);
    co_return end;
  }
  // Other bodies are errors in an engine's own form, pages of a proxy or tracebacks: client libraries cannot read
  // them, and they may contain internal details.
  const bool readable = api::IsErrorOf(x.identity.protocol(), refusal.body);
  if (!readable && !refusal.body.empty()) {
    x.StoreContent({.time_us = conf::ToUnixMicros(net::Now()),
                    .part = ledger::ContentPart::kUpstreamError,
                    .text = std::string_view(refusal.body).substr(0, ledger::kMaxUpstreamError),
                    .full_bytes = refusal.body.size()});
  }
  if (x.delivery.head_sent || x.delivery.upstream->carry() != Carry::kAsIs || !readable) {
    api::ApiError error = api::FromUpstream(refusal.status, refusal.body);
    error.retry_after = refusal.retry_after;
    // Clients of Messages recognize it by these words alone, and shorten the conversation.
    const bool too_long = error.code == api::Info(api::Code::kContextLengthExceeded).name;
    if (too_long && x.identity.protocol() == api::Protocol::kAnthropic)
      error.message.insert(0, "prompt is too long: ");
    x.Fail(std::move(error), reason);
    co_return end;
  }
  x.answer_head.clear();
  RenderRelayedHead(x, nullptr, refusal.status, refusal.content_type, {refusal.body.size()}, x.answer_head,
                    refusal.retry_after);
  x.delivery.head_sent = true;
  x.outcome.counts.bytes_out += refusal.body.size();
  Charge(x);
  const std::array<ConstBuffer, 2> parts{AsBuffer(x.answer_head), AsBuffer(refusal.body)};
  if (!co_await x.client.connection().Write(parts)) co_return ClientLeft();
  x.outcome.reason = reason;
  co_return end;
}

// Sends an estimate of the number of tokens, for an engine that cannot count them.
net::Task<RelayEnd> SendCount(Exchange& x) {
  const uint64_t count =
      api::EstimateTokens(x.delivery.upstream->chat(), 1 / x.model().estimate->tokens_per_byte());
  if (!co_await SendOwn(x, 200, "application/json", api::RenderTokenCount(count, x.identity.protocol())))
    co_return ClientLeft();
  co_return Whole(x);
}

// Reads a complete answer, and returns its body in the client's protocol: a view of `body` or of `changed`. Nothing
// if it cannot be translated.
std::optional<std::string_view> PrepareWhole(Exchange& x, std::string_view body, std::string& changed) {
  ClientConnection& upstream = x.delivery.upstream->connection();
  x.at.first_token = x.at.last_token = net::Now();
  x.delivery.prefix.Computed(x.Outgoing(), x.delivery.replica, x.delivery.attempt->model(), x.at.first_token);
  // The whole answer of an API that generates nothing is its first token. For other APIs the charge ignores this.
  x.delivery.attempt->charge().FirstToken(x.at.first_token);
  TakeUsage(x, api::UsageFromJson(body));
  CountWhole(x, body);
  x.outcome.finish = api::FinishFromJson(body);
  x.RecordProgress();
  if (x.HidesCached()) {
    api::UsageScan hider(true);
    hider.Pass(upstream.payload_data(), body.size());
  }
  body = PublicNameOf(x).InDocument(body, changed);
  if (MakesResponses(x)) {
    if (const auto id = api::FindAnswerMember(body, "id")) NoteOwner(x, id->In(body).substr(1, id->size - 2));
  }
  if (x.delivery.upstream->carry() != Carry::kAsIs) {
    api::Translated<std::string> made =
        TranslateAnswer(x.Outgoing(), x.at.started, *x.delivery.upstream, body, UsageToTell(x));
    if (auto* error = std::get_if<api::ApiError>(&made)) {
      x.Fail(std::move(*error), ledger::EndReason::kUpstreamFailed);
      return std::nullopt;
    }
    changed = std::get<std::string>(std::move(made));
    body = changed;
  }
  x.outcome.status = upstream.head().status;
  x.outcome.counts.bytes_out += body.size();
  x.KeepAnswer(body);
  return body;
}

// Sends an answer piece by piece. `begin`: the bytes that came with the head, in the client's form; `meter` has
// read them.
net::Task<RelayEnd> SendPieces(Exchange& x, std::string_view begin, std::optional<uint64_t> length,
                               PieceMeter& meter) {
  ClientConnection& upstream = x.delivery.upstream->connection();
  const conf::Duration idle = x.runtime->model(x.delivery.attempt->model()).config->timeouts.idle;
  x.at.first_token = net::Now();
  x.delivery.prefix.Computed(x.Outgoing(), x.delivery.replica, x.delivery.attempt->model(), x.at.first_token);
  NoteFirstByte(x, x.at.first_token);
  x.outcome.counts.bytes_out += begin.size();
  x.KeepAnswer(begin);
  // The rendered head and the first piece are sent in one write.
  const std::array<ConstBuffer, 2> first{AsBuffer(x.answer_head),
                                         AsBuffer(length ? begin : std::string_view())};
  if (!co_await x.client.connection().Write(first)) co_return ClientLeft();
  if (!length && !begin.empty() && !co_await WriteStreamPiece(x, begin, false)) co_return ClientLeft();
  upstream.Take(upstream.payload().size());
  while (!upstream.done()) {
    const conf::TimePoint now = net::Now();
    if (now >= x.at.until)
      co_return GiveUp(x, api::Code::kDeadlineExceeded,
                       "the answer took longer than the total timeout allows");
    const Status status = co_await upstream.ReadSome(std::min(now + idle, x.at.until));
    if (status != Status::kOk) co_return Broken(status, "the replica broke off in the middle of its answer");
    const std::string_view piece = upstream.payload();
    meter.Pass(upstream.payload_data(), piece.size());
    x.KeepAnswer(piece);
    bool written = true;
    if (!length) {
      written = piece.empty() || co_await WriteStreamPiece(x, piece, false);
    } else {
      x.outcome.counts.bytes_out += piece.size();
      written = static_cast<bool>(co_await x.client.connection().Write(AsBuffer(piece)));
    }
    if (!written) co_return ClientLeft();
    upstream.Take(piece.size());
  }
  x.at.last_token = net::Now();
  meter.RecordUse();
  Charge(x);
  if (!length && !co_await WriteStreamPiece(x, {}, true)) co_return ClientLeft();
  co_return Whole(x);
}

bool IsBinary(std::string_view content_type) {
  for (const std::string_view type : {"audio/", "image/", "video/", "application/octet-stream"}) {
    if (content_type.size() >= type.size() &&
        conf::EqualsIgnoreCase(content_type.substr(0, type.size()), type))
      return true;
  }
  return false;
}

// Relays an answer that is too large for one piece, or that clients play or draw while it arrives.
net::Task<RelayEnd> RelayPieces(Exchange& x) {
  ClientConnection& upstream = x.delivery.upstream->connection();
  const net::http::Head& head = upstream.head();
  PieceMeter meter(x, x.HidesCached());
  meter.Pass(upstream.payload_data(), upstream.payload().size());
  std::string renamed;
  const std::string_view begin = PublicNameOf(x).InDocument(upstream.payload(), renamed);
  std::optional<uint64_t> length = upstream.coded() ? std::nullopt : head.content_length;
  if (length) *length += begin.size() - upstream.payload().size();
  if (MakesResponses(x)) {
    if (const auto id = api::FindAnswerMember(begin, "id"))
      NoteOwner(x, id->In(begin).substr(1, id->size - 2));
  }
  if (!length && !x.client.knows_chunks())
    x.client.SetReusable(false);  // the end of the connection ends the answer
  x.outcome.status = head.status;
  x.delivery.head_sent = true;
  x.answer_head.clear();
  RenderRelayedHead(x, &head, head.status, head.Find(FieldId::content_type), {length}, x.answer_head);
  co_return co_await SendPieces(x, begin, length, meter);
}

bool HasType(const net::http::Head& head, std::string_view type) {
  const std::string_view value = head.Find(FieldId::content_type);
  return value.size() >= type.size() && conf::EqualsIgnoreCase(value.substr(0, type.size()), type);
}

// The answer from its first visible byte on.
std::string_view Visible(std::string_view body) {
  if (body.starts_with(conf::kByteOrderMark)) body.remove_prefix(conf::kByteOrderMark.size());
  return body.substr(std::min(body.find_first_not_of(" \t\r\n"), body.size()));
}

// Whether a whole answer of the API is always a JSON object.
bool AnswersWithObject(const Exchange& x) {
  return !x.identity.spec->bound.empty() || x.identity.spec->api == router::Api::kEmbeddings;
}

// Clients read JSON only from an answer that says that it is JSON.
std::string_view TypeOfWhole(const Exchange& x, const net::http::Head& head) {
  const bool is_object = AnswersWithObject(x) || x.delivery.upstream->carry() != Carry::kAsIs;
  const std::string_view type = head.Find(FieldId::content_type);
  return is_object && !conf::Contains(type, "json") ? "application/json" : type;
}

bool BeginsWithEvent(std::string_view body) {
  const std::string_view visible = Visible(body);
  for (const std::string_view field : {"data:", "event:", "id:", "retry:", ":"}) {
    if (visible.starts_with(field)) return true;
  }
  return false;
}

bool BeginsObject(std::string_view body) {
  return Visible(body).starts_with('{');
}

// An object, or an array with the object of an error.
bool BeginsDocument(std::string_view body) {
  return BeginsObject(body) || Visible(body).starts_with('[');
}

// Whether the client waits for a stream whose end has a marker. Clients take one document in its place for a stream
// without events, and see nothing of it.
bool MustStream(const Exchange& x) {
  return x.body.facts.stream && !x.identity.spec->bound.empty();
}

// Ends a request for a stream that a replica has answered with a document. Nothing else would come of another try: the
// replica works, and its answer is charged. An error in the document is the client's answer.
RelayEnd RefuseDocument(Exchange& x, ClientConnection& upstream) {
  TakeUsage(x, api::UsageFromJson(upstream.payload()));
  std::optional<api::ApiError> error = api::ReportedError(upstream.payload());
  if (error) {
    x.outcome.answering = x.outcome.counts.source == ledger::TokenSource::kUpstream;
  } else {
    error =
        api::Make(api::Code::kUpstreamError, "the replica did not answer with a stream: ask without stream");
    error->should_retry = false;
  }
  const auto reason =
      error->status < 500 ? ledger::EndReason::kBadRequest : ledger::EndReason::kUpstreamFailed;
  x.Fail(*std::move(error), reason);
  return {Kind::kGivenUp, Event::Of(Event::Kind::kClientGone)};
}

// Ends a try that was answered with something else than the API's answer: no work of an engine, which is not charged.
RelayEnd NoAnswer(Exchange& x, std::string_view message) {
  x.outcome.answering = false;
  return Broken(Status::kMalformed, message);
}

// Relays an answer that is an error although its head says otherwise: with the status of the error, and charged as a
// refusal unless it reports usage.
net::Task<RelayEnd> RelayErrorAnswer(Exchange& x, ClientConnection& upstream, int status) {
  TakeUsage(x, api::UsageFromJson(upstream.payload()));
  x.outcome.answering = x.outcome.counts.source == ledger::TokenSource::kUpstream;
  x.delivery.upstream->SetRefusal({.status = status,
                                   .content_type = std::string(upstream.head().Find(FieldId::content_type)),
                                   .body = std::string(upstream.payload())});
  co_return co_await RelayRefusal(x);
}

net::Task<RelayEnd> RelayStream(Exchange& x);

net::Task<RelayEnd> RelayBody(Exchange& x) {
  ClientConnection& upstream = x.delivery.upstream->connection();
  const conf::Duration idle = x.runtime->model(x.delivery.attempt->model()).config->timeouts.idle;
  // A translation needs the whole answer, up to the size of the largest event.
  const size_t whole = x.delivery.upstream->carry() == Carry::kAsIs ? kWholeAnswer : kMaxEvent;
  x.outcome.answering = true;
  upstream.KeepHead();
  // Clients play sound and draw images while they arrive.
  const bool at_once =
      x.delivery.upstream->carry() == Carry::kAsIs && IsBinary(upstream.head().Find(FieldId::content_type));
  while (true) {
    // Some servers give their events no type, or another one.
    if (MustStream(x) && BeginsWithEvent(upstream.payload())) co_return co_await RelayStream(x);
    if (upstream.done() || upstream.payload().size() >= whole) break;
    if (at_once && !upstream.payload().empty()) break;
    const Status status = co_await upstream.ReadSome(std::min(net::Now() + idle, x.at.until));
    if (status != Status::kOk) co_return Broken(status, "the replica broke off in the middle of its answer");
  }
  if (upstream.done() && upstream.payload().empty() && AnswersWithObject(x))
    co_return Broken(Status::kMalformed, "the replica sent an empty answer");
  if (MustStream(x) && BeginsDocument(upstream.payload())) co_return RefuseDocument(x, upstream);
  if (MustStream(x) || x.delivery.stream_begun)
    co_return NoAnswer(x, "the replica did not answer with a stream");
  if (!upstream.done()) {
    if (x.delivery.upstream->carry() == Carry::kAsIs) co_return co_await RelayPieces(x);
    co_return Broken(Status::kMalformed, "the replica sent an answer larger than this gateway translates");
  }
  if (upstream.payload().size() <= kMaxErrorAnswer) {
    if (const std::optional<api::ApiError> error = api::ErrorWithoutAnswer(upstream.payload()))
      co_return co_await RelayErrorAnswer(x, upstream, error->status);
  }
  // Pages of sign-ins and proxies come with the status of success, too.
  if (AnswersWithObject(x) && !BeginsObject(upstream.payload()))
    co_return NoAnswer(x, "the replica sent an answer that is not a JSON object");
  std::string changed;
  const std::optional<std::string_view> body = PrepareWhole(x, upstream.payload(), changed);
  if (!body) co_return RelayEnd{Kind::kWhole, Event::Of(Event::Kind::kBroken)};
  co_await x.client.connection().stream().AwaitBatch();
  // Nothing waits between here and the ledger's record, unless the client is slow. So the records have the same
  // order as the charges.
  const net::http::Head& head = upstream.head();
  x.answer_head.clear();
  RenderRelayedHead(x, &head, head.status, TypeOfWhole(x, head), {body->size()}, x.answer_head);
  x.delivery.head_sent = true;
  Charge(x);
  const bool failed = IsFailedResponse(x, *body);
  if (failed) NoteFirstByte(x, net::Now());
  const std::array<ConstBuffer, 2> parts{AsBuffer(x.answer_head), AsBuffer(*body)};
  if (!co_await x.client.connection().Write(parts)) co_return ClientLeft();
  if (failed)
    co_return RelayEnd{Kind::kReported, Event::Of(Event::Kind::kBroken),
                       "the engine reported a failed response"};
  co_return Whole(x);
}

// --- Streams ---

// Whether the client did not ask for usage, in an API where that is its choice. The gateway always asks the engine.
bool HidesUsage(const Exchange& x) {
  const bool optional = x.identity.spec->api == router::Api::kChatCompletions ||
                        x.identity.spec->api == router::Api::kCompletions;
  return optional && !x.body.facts.usage_asked;
}

// Some servers leave out the blank line behind their last event.
bool LacksOnlyItsBlankLine(std::string_view bytes) {
  const net::SseEvent event = net::NextSseEvent(bytes);
  return event.has_data && !event.multi_line &&
         (event.data == "[DONE]" || conf::ParseJson(event.data).is_object());
}

class StreamRelay {
 public:
  explicit StreamRelay(Exchange& x)
      : x_(x),
        upstream_(x.delivery.upstream->connection()),
        tally_(AnsweringApi(x), HidesUsage(x), x.HidesCached()),
        public_name_(PublicNameOf(x)),
        limits_(x.runtime->config().server.limits),
        idle_(x.runtime->model(x.delivery.attempt->model()).config->timeouts.idle),
        first_byte_(x.runtime->model(x.delivery.attempt->model()).config->timeouts.first_byte) {
    if (x.delivery.upstream->carry() != Carry::kAsIs)
      translator_ = MakeStreamTranslator(x.Outgoing(), x.at.started, *x.delivery.upstream);
  }

  net::Task<RelayEnd> Run() {
    x_.shard.metrics.cells.streams_active.Add();
    const RelayEnd end = co_await Loop();
    x_.shard.metrics.cells.streams_active.Sub();
    co_return end;
  }

 private:
  net::Task<RelayEnd> Loop();
  net::Task<Status> Read(bool first);
  void SkipByteOrderMark();
  bool Ended() const { return tally_.finished() || (upstream_.done() && !tally_.needs_marker()); }
  void Note(conf::TimePoint now, uint64_t events_before);
  void TakeCounts();
  // Returns `whole` bytes of whole events in the client's form; valid until the next call.
  std::string_view Convert(char* data, size_t whole);
  net::Task<bool> Send(std::string_view piece, bool last);
  std::optional<RelayEnd> CheckLimits(conf::TimePoint now);

  Exchange& x_;
  ClientConnection& upstream_;
  net::SseFramer framer_;
  StreamTally tally_;
  api::PublicModelName public_name_;
  bool owner_noted_ = false;
  const config::ServerLimits& limits_;
  const conf::Duration idle_;
  const conf::Duration first_byte_;
  bool left_hung_ = false;
  std::unique_ptr<StreamTranslator> translator_;
  std::string translated_;
  std::string last_;     // the last event, where it came without its blank line
  std::string joined_;   // the data of an event with several lines
  std::string failure_;  // the last events, with the error that they tell
};

void StreamRelay::Note(conf::TimePoint now, uint64_t events_before) {
  if (tally_.events() == events_before) return;
  if (events_before == 0) {
    x_.at.first_token = now;
    x_.delivery.attempt->charge().FirstToken(now);
    x_.delivery.demand.FirstToken(now - x_.at.started);
    WakeNext(x_, now);
    x_.delivery.prefix.Running(x_.Outgoing(), x_.delivery.replica, x_.delivery.attempt->model(),
                               x_.delivery.attempt->charge(), now);
  } else {
    x_.delivery.attempt->charge().Token(now);
    x_.at.max_gap = std::max(x_.at.max_gap, now - x_.at.last_token);
  }
  x_.at.last_token = now;
  x_.outcome.answering = true;
  TakeCounts();
  x_.outcome.counts.ttft_us = ToMicros(x_.at.first_token - x_.at.started);
  x_.RecordProgress();
}

void StreamRelay::TakeCounts() {
  x_.outcome.events = tally_.events();
  x_.outcome.text_bytes = tally_.text().bytes();
  x_.outcome.text_events = tally_.text().events();
  x_.outcome.finish = tally_.finish();
  if (tally_.output_reported()) {
    TakeUsage(x_, tally_.usage());
  } else {
    if (tally_.usage()) {
      x_.body.prompt_tokens = static_cast<int64_t>(tally_.usage()->input);
      x_.outcome.counts.cached = x_.delivery.transfer ? x_.delivery.transfer->CachedOf(*tally_.usage())
                                                      : tally_.usage()->cached_input;
      x_.outcome.cache_written = tally_.usage()->cache_written;
    }
    x_.CountText();
  }
}

std::string_view StreamRelay::Convert(char* data, size_t whole) {
  const size_t kept = tally_.Pass(data, whole);
  std::string_view events(data, kept);
  if (!owner_noted_ && !events.empty()) {
    owner_noted_ = true;
    if (MakesResponses(x_)) NoteOwner(x_, api::TextInEvents(events, "id"));
  }
  if (!translator_) return public_name_.InEvents(events, translated_);
  translated_.clear();
  while (!events.empty()) {
    const net::SseEvent event = net::NextSseEvent(events);
    if (!event.has_data || (event.data.empty() && !event.multi_line)) continue;
    if (event.data == "[DONE]") {
      TakeCounts();
      translator_->OnDone(translated_, UsageToTell(x_));
    } else if (event.name == "ping") {
      continue;  // of proxies that speak Anthropic's API elsewhere
    } else if (event.name == "error") {
      const std::string_view data = net::WholeData(event, joined_);
      translator_->OnError(api::FromUpstream(api::Info(api::Code::kUpstreamError).status, data), translated_);
    } else {
      translator_->OnData(net::WholeData(event, joined_), translated_);
    }
  }
  return translated_;
}

net::Task<bool> StreamRelay::Send(std::string_view piece, bool last) {
  if (x_.delivery.stream_begun) co_return co_await WriteStreamPiece(x_, piece, last);
  // The head and the first events are sent in one write.
  const net::http::Head& head = upstream_.head();
  x_.outcome.status = head.status;
  x_.delivery.stream_begun = true;
  x_.delivery.head_sent = true;
  x_.answer_head.clear();
  RenderRelayedHead(x_, &head, head.status, "text/event-stream; charset=utf-8", {}, x_.answer_head);
  std::array<char, kChunkSizeRoom> size;
  std::array<ConstBuffer, 4> parts{AsBuffer(x_.answer_head)};
  size_t n = 1;
  const bool chunked = x_.client.knows_chunks();
  if (!piece.empty()) {
    if (chunked) parts[n++] = ConstBuffer(size.data(), RenderChunkSize(piece.size(), size.data()));
    parts[n++] = AsBuffer(piece);
    if (chunked && !last) parts[n++] = AsBuffer("\r\n");
  }
  if (chunked && last) parts[n++] = AsBuffer(piece.empty() ? "0\r\n\r\n" : "\r\n0\r\n\r\n");
  x_.outcome.counts.bytes_out += piece.size();
  co_return static_cast<bool>(
      co_await x_.client.connection().Write(std::span<const ConstBuffer>(parts.data(), n)));
}

// Clients that do not know it would lose the first event with it.
void StreamRelay::SkipByteOrderMark() {
  if (!upstream_.payload().starts_with(conf::kByteOrderMark)) return;
  upstream_.KeepHead();
  upstream_.Take(conf::kByteOrderMark.size());
  framer_.Taken(conf::kByteOrderMark.size());
}

std::optional<RelayEnd> StreamRelay::CheckLimits(conf::TimePoint now) {
  if (now > std::min(x_.at.started + limits_.stream_time, x_.at.until))
    return GiveUp(x_, api::Code::kStreamLimit, "the stream has lasted as long as this gateway allows");
  if (x_.outcome.counts.bytes_out > limits_.stream_bytes)
    return GiveUp(x_, api::Code::kStreamLimit, "the stream has sent as much as this gateway allows");
  return std::nullopt;
}

net::Task<RelayEnd> StreamRelay::Loop() {
  bool first = true;
  Status status = Status::kOk;
  while (true) {
    if (first) SkipByteOrderMark();
    const uint64_t events_before = tally_.events();
    char* events = upstream_.payload_data();
    size_t whole = framer_.Whole(upstream_.payload());
    if (whole == 0 && upstream_.done() && LacksOnlyItsBlankLine(upstream_.payload())) {
      last_.assign(upstream_.payload()).append("\n\n");
      events = last_.data();
      whole = last_.size();
    }
    // Whole events that came before a failure are sent; but if the client has nothing yet, another replica can
    // still be tried.
    if (status != Status::kOk && (whole == 0 || !x_.delivery.head_sent)) {
      RelayEnd end = Broken(status, status == Status::kTimedOut
                                        ? "the replica stopped sending in the middle of its stream"
                                        : "the replica broke off in the middle of its stream");
      if (left_hung_) end.event = Event::Of(Event::Kind::kHung);
      co_return end;
    }
    if (whole > 0) {
      std::string_view out = Convert(events, whole);
      if (!translator_ && tally_.unclear_failure()) {
        failure_.assign(out).append(
            api::RenderStreamError(x_.identity.protocol(), *tally_.unclear_failure(), x_.identity.id));
        out = failure_;
      }
      x_.KeepAnswer(out);
      co_await x_.client.connection().stream().AwaitBatch();
      const conf::TimePoint now = net::Now();
      Note(now, events_before);
      if (first && tally_.events() > 0) {
        first = false;
        NoteFirstByte(x_, now);
      }
      const bool reported_failure =
          tally_.failed() || (translator_ && translator_->state() == api::StreamState::kFailed);
      const bool ended = Ended() || reported_failure;
      if (ended) Charge(x_);
      if ((!out.empty() || ended) && !co_await Send(out, ended)) co_return ClientLeft();
      if (!x_.delivery.head_sent) upstream_.KeepHead();  // these events had nothing for the client
      upstream_.Take(std::min(whole, upstream_.payload().size()));
      framer_.Taken(whole);
      if (reported_failure) {
        // The client has the engine's own error, in a complete message.
        co_return RelayEnd{Kind::kReported, Event::Of(Event::Kind::kBroken),
                           "the engine reported an error in its stream"};
      }
      if (ended) break;
      if (const auto exceeded = CheckLimits(now)) co_return *exceeded;
      if (status != Status::kOk) continue;
    } else if (upstream_.done()) {
      // The body has ended. Without the marker of its protocol, the answer is not whole.
      if (tally_.needs_marker() || !upstream_.payload().empty()) {
        co_return Broken(Status::kClosed, "the replica ended its stream before the answer was whole");
      }
      if (!co_await Send({}, true)) co_return ClientLeft();
      break;
    } else if (upstream_.payload().size() > kMaxEvent) {
      co_return Broken(Status::kMalformed, "the replica sent an event larger than this gateway relays");
    }
    if (!x_.delivery.head_sent)
      upstream_.KeepHead();  // it is sent with the first event; until then another replica can be tried
    status = co_await Read(first);
  }
  // The client has the last event. Reads the end of the message, so that the connection can be used again.
  const conf::TimePoint until = net::Now() + kEndOfMessage;
  while (status == Status::kOk && !upstream_.done()) {
    upstream_.Take(upstream_.payload().size());
    status = co_await upstream_.ReadSome(until);
  }
  co_return Whole(x_);
}

// Engines send the head at once and then queue the request. So the wait for the first event has the timeout of the
// first byte, heartbeats, and a watch for hanging replicas.
net::Task<Status> StreamRelay::Read(bool first) {
  if (!first) co_return co_await upstream_.ReadSome(net::Now() + idle_);
  Heartbeat heartbeat(x_);
  const HangWatch watch(x_.shard.loop.watchdog, *x_.delivery.attempt, x_.client.cancel(), upstream_);
  const Status status = co_await upstream_.ReadSome(net::Now() + first_byte_);
  left_hung_ = watch.left();
  co_await heartbeat.Stop();
  co_return status;
}

net::Task<RelayEnd> RelayStream(Exchange& x) {
  StreamRelay relay(x);
  co_return co_await relay.Run();
}

}  // namespace

net::Task<RelayEnd> Relay(Exchange& x) {
  Upstream& upstream = *x.delivery.upstream;
  if (upstream.refusal().status > 0) return RelayRefusal(x);
  if (upstream.carry() == Carry::kCountHere) return SendCount(x);
  x.client.cancel().SetRunning(&upstream.connection());
  if (HasType(upstream.connection().head(), "text/event-stream")) return RelayStream(x);
  return RelayBody(x);
}

}  // namespace gateway
