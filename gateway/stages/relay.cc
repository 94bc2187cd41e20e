// relay: the answer to the client. A stream goes event by event, each as soon as it is whole; a small answer
// goes in one piece with its head; a large one goes as it comes.
#include <fmt/format.h>

#include <utility>

#include "conf/text.h"
#include "gateway/answer.h"
#include "gateway/handover/hop.h"
#include "gateway/heartbeat.h"
#include "gateway/net/clock.h"
#include "gateway/net/sse.h"
#include "gateway/shard.h"
#include "gateway/stages/stages.h"
#include "gateway/upstream/hang_look.h"
#include "gateway/upstream/stream_tally.h"
#include "gateway/upstream/translator.h"
#include "gateway/upstream/upstream.h"

namespace gateway::stages {
namespace {

using net::AsBuffer;
using net::ConstBuffer;
using net::http::ClientConnection;
using net::http::FieldId;
using router::Event;
using router::Step;
using Status = ClientConnection::Status;

// An answer up to this size is read whole and sent in one piece.
constexpr size_t kWholeAnswer = 256 * 1024;
// Where `usage` stands in an answer that is larger.
constexpr size_t kTail = 4096;
// An event may be this large before it is taken for a stream that has none.
constexpr size_t kMaxEvent = 8u << 20;
// How long a replica may take to end its message once its last event has come.
constexpr conf::Duration kEndOfMessage = std::chrono::seconds(2);

void TakeUsage(Exchange& x, const std::optional<api::Usage>& usage) {
  if (!usage) return;
  x.counts.input = usage->input;
  x.counts.cached = x.hop ? x.hop->CachedOf(*usage) : usage->cached_input;
  x.counts.output = usage->output;
  x.counts.source = ledger::TokenSource::kUpstream;
}

// Tells the attempt how it ended and the ledger why.
Verdict Finish(Exchange& x, const Event& event) {
  const conf::TimePoint now = net::Now();
  x.attempt->charge().Answered(x.at.last_token);
  x.attempt->charge().LastToken(static_cast<int64_t>(x.counts.output), x.at.last_token);
  x.attempt->Resume(event, now);
  x.upstream->Release(now);
  x.answer_whole = true;
  x.reason = x.finish == api::Finish::kLength ? ledger::EndReason::kLength : ledger::EndReason::kDone;
  return Verdict::kAnswered;
}

Verdict ClientLeft(Exchange& x) {
  x.upstream->Abort();
  x.attempt->Resume(Event::Of(Event::Kind::kClientGone), net::Now());
  x.shard.metrics.replica(*x.runtime, x.replica).cancelled.Add();
  return x.Gone();
}

Verdict Broken(Exchange& x, Status status, std::string_view what, bool hung = false) {
  if (x.client_gone) return ClientLeft(x);
  const bool late = status == Status::kTimedOut;
  x.upstream->Abort();
  const Event event = Event::Of(hung   ? Event::Kind::kHung
                                : late ? Event::Kind::kTimedOut
                                       : Event::Kind::kBroken);
  if (x.hop) x.hop->Drop();
  const bool others = x.hop && x.hop->failure();  // it was given up, since its prompt will not come
  const Step step =
      others ? x.attempt->ResumePrefill(*x.hop->failure(), net::Now()) : x.attempt->Resume(event, net::Now());
  ReplicaCells& cells = x.shard.metrics.replica(*x.runtime, x.replica);
  if (!others) (hung ? cells.hung : late ? cells.timeouts : cells.broken).Add();
  if (step.kind == Step::Kind::kTry || step.kind == Step::Kind::kWait) {
    x.again = step;
    return Verdict::kFailed;
  }
  const api::Code code = x.stream_begun ? api::Code::kStreamInterrupted
                         : late         ? api::Code::kUpstreamTimeout
                                        : api::Code::kUpstreamError;
  return x.Fail(api::Make(code, std::string(what)),
                late ? ledger::EndReason::kTimedOut : ledger::EndReason::kUpstreamFailed);
}

// What the client has taken so long over is not the replica's fault.
Verdict OutOfTime(Exchange& x, conf::TimePoint now) {
  x.upstream->Abort();
  x.attempt->Resume(Event::Of(Event::Kind::kClientGone), now);
  return x.Fail(api::Make(api::Code::kDeadlineExceeded, "the time that this answer may take has passed"),
                ledger::EndReason::kTimedOut);
}

// --- Whole answers ---

net::Task<Verdict> RelayRefusal(Exchange& x) {
  const UpstreamRefusal& refusal = x.upstream->refusal();
  const Event done = Event::Of(Event::Kind::kCompleted);
  x.status = refusal.status;
  const auto reason = refusal.status < 500 && refusal.status != 429 ? ledger::EndReason::kBadRequest
                                                                    : ledger::EndReason::kUpstreamFailed;
  // A replica that refuses our credentials is our operator's affair; the client's own are good.
  if (refusal.status == 401 || refusal.status == 403) {
    Finish(x, done);
    co_return x.Fail(
        api::Make(api::Code::kUpstreamError, "the replica does not accept the gateway's credentials"),
        ledger::EndReason::kUpstreamFailed);
  }
  if (x.head_sent || x.upstream->carry() != Carry::kAsIs || refusal.body.empty()) {
    api::ApiError error = api::FromUpstream(refusal.status, refusal.body);
    Finish(x, done);
    co_return x.Fail(std::move(error), reason);
  }
  x.answer_head.clear();
  RenderRelayedHead(x, nullptr, refusal.status, refusal.content_type, {refusal.body.size()}, x.answer_head);
  x.head_sent = true;
  x.counts.bytes_out += refusal.body.size();
  Charge(x);
  const std::array<ConstBuffer, 2> parts{AsBuffer(x.answer_head), AsBuffer(refusal.body)};
  if (!co_await x.client.Write(parts)) co_return ClientLeft(x);
  Finish(x, done);
  x.reason = reason;
  co_return Verdict::kAnswered;
}

// The answer is in hand, whole.
net::Task<Verdict> SendWhole(Exchange& x, std::string_view body) {
  ClientConnection& upstream = x.upstream->connection();
  x.at.first_token = x.at.last_token = net::Now();
  x.prefix.Computed(x, x.replica, x.at.first_token);
  // An answer that nothing is generated for is its own first token; of others the charge knows better.
  x.attempt->charge().FirstToken(x.at.first_token);
  TakeUsage(x, api::UsageFromJson(body));
  x.finish = api::FinishFromJson(body);
  x.TellProgress();
  std::string translated;
  if (x.upstream->carry() != Carry::kAsIs) {
    api::Translated<std::string> made = TranslateAnswer(x, *x.upstream, body);
    if (auto* error = std::get_if<api::ApiError>(&made)) {
      Finish(x, Event::Of(Event::Kind::kBroken));
      co_return x.Fail(std::move(*error), ledger::EndReason::kUpstreamFailed);
    }
    translated = std::get<std::string>(std::move(made));
    body = translated;
  }
  const net::http::Head& head = upstream.head();
  x.status = head.status;
  x.counts.bytes_out += body.size();
  x.KeepAnswer(body);
  x.answer_head.clear();
  RenderRelayedHead(x, &head, head.status, head.Find(FieldId::content_type), {body.size()}, x.answer_head);
  x.head_sent = true;
  Charge(x);
  const std::array<ConstBuffer, 2> parts{AsBuffer(x.answer_head), AsBuffer(body)};
  if (!co_await x.client.Write(parts)) co_return ClientLeft(x);
  co_return Finish(x, Event::Of(Event::Kind::kCompleted));
}

// Larger than is read whole: piece by piece, keeping the end, where usage stands.
net::Task<Verdict> SendPieces(Exchange& x, std::string_view so_far, std::optional<uint64_t> length) {
  ClientConnection& upstream = x.upstream->connection();
  const conf::Duration idle = x.runtime->model(x.attempt->model()).config->timeouts.idle;
  std::string tail;
  const auto keep = [&](std::string_view piece) {
    tail.append(piece.substr(piece.size() > kTail ? piece.size() - kTail : 0));
    if (tail.size() > 4 * kTail) tail.erase(0, tail.size() - kTail);
  };
  x.at.first_token = net::Now();
  x.prefix.Computed(x, x.replica, x.at.first_token);
  x.attempt->Resume(Event::Of(Event::Kind::kFirstByte), x.at.first_token);
  keep(so_far);
  x.counts.bytes_out += so_far.size();
  x.KeepAnswer(so_far);
  // The head of the answer is written already; its first piece comes with it.
  const std::array<ConstBuffer, 2> first{AsBuffer(x.answer_head),
                                         AsBuffer(length ? so_far : std::string_view())};
  if (!co_await x.client.Write(first)) co_return ClientLeft(x);
  if (!length && !so_far.empty() && !co_await WriteStreamPiece(x, so_far, false)) co_return ClientLeft(x);
  upstream.Take(upstream.payload().size());
  while (!upstream.done()) {
    const conf::TimePoint now = net::Now();
    if (now >= x.until) co_return OutOfTime(x, now);
    const Status status = co_await upstream.ReadSome(std::min(now + idle, x.until));
    if (status != Status::kOk) co_return Broken(x, status, "the replica broke off within its answer");
    const std::string_view piece = upstream.payload();
    keep(piece);
    x.KeepAnswer(piece);
    bool written = true;
    if (!length) {
      written = piece.empty() || co_await WriteStreamPiece(x, piece, false);
    } else {
      x.counts.bytes_out += piece.size();
      written = static_cast<bool>(co_await x.client.Write(AsBuffer(piece)));
    }
    if (!written) co_return ClientLeft(x);
    upstream.Take(piece.size());
  }
  x.at.last_token = net::Now();
  TakeUsage(x, api::UsageFromJson(tail));
  x.finish = api::FinishFromJson(tail);
  x.TellProgress();
  Charge(x);
  if (!length && !co_await WriteStreamPiece(x, {}, true)) co_return ClientLeft(x);
  co_return Finish(x, Event::Of(Event::Kind::kCompleted));
}

net::Task<Verdict> RelayBody(Exchange& x) {
  ClientConnection& upstream = x.upstream->connection();
  const conf::Duration idle = x.runtime->model(x.attempt->model()).config->timeouts.idle;
  // A translation needs all of it, within the same bound as any event.
  const size_t whole = x.upstream->carry() == Carry::kAsIs ? kWholeAnswer : kMaxEvent;
  upstream.KeepHead();
  while (!upstream.done() && upstream.payload().size() < whole) {
    const Status status = co_await upstream.ReadSome(std::min(net::Now() + idle, x.until));
    if (status != Status::kOk) co_return Broken(x, status, "the replica broke off within its answer");
  }
  if (upstream.done()) co_return co_await SendWhole(x, upstream.payload());
  if (x.upstream->carry() != Carry::kAsIs)
    co_return Broken(x, Status::kMalformed, "the replica's answer is too large");
  const net::http::Head& head = upstream.head();
  const std::optional<uint64_t> length = head.content_length;
  if (!length && !x.client_knows_chunks()) x.reuse_client = false;  // only the end tells that it is whole
  x.status = head.status;
  x.head_sent = true;
  x.answer_head.clear();
  RenderRelayedHead(x, &head, head.status, head.Find(FieldId::content_type), {length}, x.answer_head);
  co_return co_await SendPieces(x, upstream.payload(), length);
}

// --- Streams ---

// Only these protocols leave it to the client whether a stream tells its usage; we always ask for it.
bool HidesUsage(const Exchange& x) {
  const bool optional =
      x.spec->api == router::Api::kChatCompletions || x.spec->api == router::Api::kCompletions;
  return optional && !x.facts.usage_asked;
}

class StreamRelay {
 public:
  explicit StreamRelay(Exchange& x)
      : x_(x),
        upstream_(x.upstream->connection()),
        tally_(x.upstream->carry() == Carry::kAsIs ? x.spec->api : router::Api::kChatCompletions,
               HidesUsage(x)),
        limits_(x.runtime->config().server.limits),
        idle_(x.runtime->model(x.attempt->model()).config->timeouts.idle),
        first_byte_(x.runtime->model(x.attempt->model()).config->timeouts.first_byte) {
    if (x.upstream->carry() != Carry::kAsIs) translator_ = MakeStreamTranslator(x, *x.upstream);
  }

  net::Task<Verdict> Run() {
    x_.shard.metrics.cells.streams_active.Add();
    const Verdict verdict = co_await Loop();
    x_.shard.metrics.cells.streams_active.Sub();
    co_return verdict;
  }

 private:
  net::Task<Verdict> Loop();
  net::Task<Status> Read(bool first);
  bool Ended() const { return tally_.finished() || (upstream_.done() && !tally_.needs_marker()); }
  void Note(conf::TimePoint now, uint64_t events_before);
  // What `whole` bytes of whole events become for this client; a view that lives until the next call.
  std::string_view Convert(size_t whole);
  net::Task<bool> Send(std::string_view piece, bool last);
  std::optional<Verdict> OverLimits(conf::TimePoint now);

  Exchange& x_;
  ClientConnection& upstream_;
  net::SseFramer framer_;
  StreamTally tally_;
  const config::ServerLimits& limits_;
  const conf::Duration idle_;
  const conf::Duration first_byte_;
  bool left_hung_ = false;
  std::unique_ptr<StreamTranslator> translator_;
  std::string translated_;
};

void StreamRelay::Note(conf::TimePoint now, uint64_t events_before) {
  if (tally_.events() == events_before) return;
  if (events_before == 0) {
    x_.at.first_token = now;
    x_.attempt->charge().FirstToken(now);
    x_.demand.FirstToken(now - x_.at.started);
    CallNext(x_, now);
    x_.prefix.Running(x_, now);
  } else {
    x_.attempt->charge().Token(now);
    x_.at.max_gap = std::max(x_.at.max_gap, now - x_.at.last_token);
  }
  x_.at.last_token = now;
  x_.events = tally_.events();
  x_.finish = tally_.finish();
  if (tally_.output_told()) {
    TakeUsage(x_, tally_.usage());
  } else {
    if (tally_.usage()) {
      x_.prompt_tokens_est = static_cast<int64_t>(tally_.usage()->input);
      x_.counts.cached = x_.hop ? x_.hop->CachedOf(*tally_.usage()) : tally_.usage()->cached_input;
    }
    x_.CountFromEvents();
  }
  x_.counts.ttft_us =
      std::chrono::duration_cast<std::chrono::microseconds>(x_.at.first_token - x_.at.started).count();
  x_.TellProgress();
}

std::string_view StreamRelay::Convert(size_t whole) {
  char* data = upstream_.payload_data();
  const size_t kept = tally_.Pass(data, whole);
  std::string_view events(data, kept);
  if (!translator_) return events;
  translated_.clear();
  while (!events.empty()) {
    const net::SseEvent event = net::NextSseEvent(events);
    if (!event.has_data) continue;
    if (event.data == "[DONE]") {
      translator_->OnDone(translated_);
    } else {
      translator_->OnData(event.data, translated_);
    }
  }
  return translated_;
}

net::Task<bool> StreamRelay::Send(std::string_view piece, bool last) {
  if (x_.stream_begun) co_return co_await WriteStreamPiece(x_, piece, last);
  // The head goes out with the first events, in one write.
  const net::http::Head& head = upstream_.head();
  x_.status = head.status;
  x_.stream_begun = true;
  x_.head_sent = true;
  x_.answer_head.clear();
  RenderRelayedHead(x_, &head, head.status, "text/event-stream; charset=utf-8", {}, x_.answer_head);
  std::array<char, 18> size;
  std::array<ConstBuffer, 4> parts{AsBuffer(x_.answer_head)};
  size_t n = 1;
  const bool chunked = x_.client_knows_chunks();
  if (!piece.empty()) {
    if (chunked) parts[n++] = ConstBuffer(size.data(), RenderChunkSize(piece.size(), size.data()));
    parts[n++] = AsBuffer(piece);
    if (chunked && !last) parts[n++] = AsBuffer("\r\n");
  }
  if (chunked && last) parts[n++] = AsBuffer(piece.empty() ? "0\r\n\r\n" : "\r\n0\r\n\r\n");
  x_.counts.bytes_out += piece.size();
  co_return static_cast<bool>(co_await x_.client.Write(std::span<const ConstBuffer>(parts.data(), n)));
}

std::optional<Verdict> StreamRelay::OverLimits(conf::TimePoint now) {
  const bool late = now > std::min(x_.at.started + limits_.stream_time, x_.until);
  if (!late && x_.counts.bytes_out <= limits_.stream_bytes) return std::nullopt;
  x_.upstream->Abort();
  x_.attempt->Resume(Event::Of(Event::Kind::kClientGone), now);  // the replica did nothing wrong
  return x_.Fail(
      api::Make(api::Code::kStreamLimit, late ? "the stream has lasted as long as this gateway allows"
                                              : "the stream has sent as much as this gateway allows"),
      ledger::EndReason::kTimedOut);
}

net::Task<Verdict> StreamRelay::Loop() {
  bool first = true;
  Status status = Status::kOk;
  while (true) {
    const uint64_t events_before = tally_.events();
    const size_t whole = framer_.Whole(upstream_.payload());
    // What came whole before a failure goes out, unless the client has nothing yet: then others can be tried.
    if (status != Status::kOk && (whole == 0 || !x_.head_sent)) {
      co_return Broken(x_, status,
                       status == Status::kTimedOut ? "the replica fell silent within its stream"
                                                   : "the replica broke off within its stream",
                       left_hung_);
    }
    if (whole > 0) {
      const std::string_view out = Convert(whole);
      x_.KeepAnswer(out);
      const conf::TimePoint now = net::Now();
      Note(now, events_before);
      if (first && tally_.events() > 0) {
        first = false;
        x_.attempt->Resume(Event::Of(Event::Kind::kFirstByte), now);
      }
      const bool told_failure =
          tally_.failed() || (translator_ && translator_->state() == api::StreamState::kFailed);
      const bool ended = Ended() || told_failure;
      if (ended) Charge(x_);
      if ((!out.empty() || ended) && !co_await Send(out, ended)) co_return ClientLeft(x_);
      if (!x_.head_sent) upstream_.KeepHead();  // nothing of these events was for the client
      upstream_.Take(whole);
      framer_.Taken(whole);
      if (told_failure) {
        // The engine's own words have gone to the client, in a message that is whole.
        Broken(x_, Status::kClosed, "the engine reported an error in its stream");
        x_.answer_whole = true;
        co_return Verdict::kAnswered;
      }
      if (ended) break;
      if (const auto over = OverLimits(now)) co_return *over;
      if (status != Status::kOk) continue;
    } else if (upstream_.done()) {
      // Its body is over, and the marker that says that the answer is whole has not come.
      if (tally_.needs_marker() || !upstream_.payload().empty()) {
        co_return Broken(x_, Status::kClosed, "the replica ended its stream before the answer was whole");
      }
      if (!co_await Send({}, true)) co_return ClientLeft(x_);
      break;
    } else if (upstream_.payload().size() > kMaxEvent) {
      co_return Broken(x_, Status::kMalformed, "the replica sent an event larger than this gateway relays");
    }
    if (!x_.head_sent)
      upstream_.KeepHead();  // it goes out with the first event: until then others can be tried
    status = co_await Read(first);
  }
  // The last event is out; what ends the message is waited for so that the connection can be used again.
  const conf::TimePoint until = net::Now() + kEndOfMessage;
  while (status == Status::kOk && !upstream_.done()) {
    upstream_.Take(upstream_.payload().size());
    status = co_await upstream_.ReadSome(until);
  }
  co_return Finish(x_, Event::Of(Event::Kind::kCompleted));
}

// Until the first event, the client is as much in the dark as before the head: engines send that at once and
// then queue the request.
net::Task<Status> StreamRelay::Read(bool first) {
  if (!first) co_return co_await upstream_.ReadSome(net::Now() + idle_);
  Heartbeat heartbeat(x_);
  const HangLook look(x_, upstream_);
  const Status status = co_await upstream_.ReadSome(net::Now() + first_byte_);
  left_hung_ = look.left();
  co_await heartbeat.Stop();
  co_return status;
}

bool IsEventStream(std::string_view content_type) {
  constexpr std::string_view kType = "text/event-stream";
  return content_type.size() >= kType.size() &&
         conf::EqualsIgnoreCase(content_type.substr(0, kType.size()), kType);
}

net::Task<Verdict> RelayInHand(Exchange& x) {
  if (x.upstream->refusal().status > 0) co_return co_await RelayRefusal(x);
  x.waiting = &x.upstream->connection();
  const std::string_view content_type = x.upstream->connection().head().Find(FieldId::content_type);
  Verdict verdict;
  if (IsEventStream(content_type)) {
    StreamRelay relay(x);
    verdict = co_await relay.Run();
  } else if (x.stream_begun) {
    // Heartbeats promised a stream, and the replica answers with one document.
    verdict = Broken(x, Status::kMalformed, "the replica did not answer with a stream");
  } else {
    verdict = co_await RelayBody(x);
  }
  x.waiting = nullptr;
  co_return verdict;
}

}  // namespace

net::Task<Verdict> Relay(Exchange& x) {
  while (true) {
    const Verdict verdict = co_await RelayInHand(x);
    if (!x.again) co_return verdict;
    const Verdict found = co_await Pursue(x, *std::exchange(x.again, std::nullopt), net::Now());
    if (found != Verdict::kGoOn) co_return found;
  }
}

}  // namespace gateway::stages
