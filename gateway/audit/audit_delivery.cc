#include "gateway/audit/audit_delivery.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "conf/hex.h"
#include "conf/text.h"
#include "gateway/ledger/chain.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"

namespace gateway {
namespace {

bool IsFileName(std::string_view name) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
  return !name.empty() && name.front() != '.' && name.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace

// `SEQ LINK\n`, or `SEQ\n` if it was written by hand.
absl::StatusOr<AuditDelivery::Place> AuditDelivery::ParsePosition(const Options& options) {
  Place place;
  const std::optional<std::string>& text = options.position;
  if (!text) return place;
  const char* const last = text->data() + text->size();
  const auto [end, error] = std::from_chars(text->data(), last, place.seq);
  std::string_view rest(end, static_cast<size_t>(last - end));
  bool good = error == std::errc() && rest.ends_with('\n');
  if (good) rest.remove_suffix(1);
  if (good && !rest.empty()) {
    place.link = rest.substr(1);
    ledger::Digest link;
    good = rest.front() == ' ' && conf::ParseHex(place.link, link);
  }
  if (good) return place;
  return absl::DataLossError(fmt::format(
      "the stored position of sink {} is \"{}\", not a sequence number and a link; give the sink another "
      "name to deliver all again",
      options.name, *text));
}

absl::StatusOr<std::unique_ptr<AuditDelivery>> AuditDelivery::Start(
    net::Loop& loop, Source source, std::unique_ptr<plugins::sinks::Sink> sink, Options options) {
  if (!IsFileName(options.name)) {
    return absl::InvalidArgumentError(fmt::format(
        "sink name \"{}\": letters, digits, '-', '_' and '.' only, and no '.' first", options.name));
  }
  absl::StatusOr<Place> begin = ParsePosition(options);
  if (!begin.ok()) return begin.status();
  return std::unique_ptr<AuditDelivery>(
      new AuditDelivery(loop, std::move(source), std::move(sink), std::move(options), *std::move(begin)));
}

AuditDelivery::AuditDelivery(net::Loop& loop, Source source, std::unique_ptr<plugins::sinks::Sink> sink,
                             Options options, Place begin)
    : loop_(loop),
      source_(std::move(source)),
      sink_(std::move(sink)),
      options_(std::move(options)),
      begin_at_(std::move(begin)),
      backoff_(options_.min_backoff, options_.max_backoff, options_.seed),
      max_records_(std::max<size_t>(1, std::min(options_.batch_records, sink_->limits().records))),
      pause_(loop.watchdog),
      deadline_(*this),
      read_at_(net::Now()) {
  status_.name = options_.name;
  status_.target = sink_->Describe();
  status_.delivered_seq = begin_at_.seq;
  loop_.tasks.Spawn(Run());
}

SinkStatus AuditDelivery::status(conf::TimePoint now) const {
  const uint64_t last = source_.last_seq();
  const std::scoped_lock lock(mutex_);
  SinkStatus status = status_;
  if (last > status.delivered_seq) {
    status.lag_records = last - status.delivered_seq;
    status.lag = std::max(now - oldest_.value_or(read_at_), conf::Duration(0));
  }
  return status;
}

void AuditDelivery::Wake() {
  woken_ = true;
  if (waiting_) pause_.Cancel();
}

void AuditDelivery::Close() {
  if (std::exchange(closed_, true)) return;
  // Either may run until the end of this object.
  delivering_ ? sink_->Close() : pause_.Cancel();
}

net::Task<void> AuditDelivery::Stop(conf::TimePoint until) {
  until_ = until;
  deadline_.Set(until);
  pause_.Cancel();
  co_await ended_.Wait();
}

// The last step must not touch this object: the task that waits for the end may destroy it.
net::Task<void> AuditDelivery::Run() {
  co_await Keep();
  deadline_.Clear();
  sink_->Close();
  ended_.Set();
}

net::Task<void> AuditDelivery::Keep() {
  while (!closed_) {
    absl::Status status = co_await NextBatch();
    const bool any = count_ > 0;
    if (closed_) break;
    if (status.ok() && any) status = co_await DeliverBatch();
    if (closed_) break;
    if (!status.ok()) {
      Failed(status);
      if (until_) break;
      co_await pause_.For(backoff_.Next());
    } else if (until_) {
      if (!any) break;
    } else if (!std::exchange(woken_, false) && (!any || !full_)) {
      waiting_ = true;
      co_await pause_.For(options_.batch_interval);
      waiting_ = woken_ = false;
    }
  }
}

// Whether the position is of this ledger: a state folder may have been given a new one.
net::Task<absl::Status> AuditDelivery::CheckPosition() {
  bool same = begin_at_.seq <= source_.last_seq();
  if (same && !begin_at_.link.empty()) {
    const auto link = co_await net::OffLoop(loop_, [this] { return source_.link(begin_at_.seq); });
    if (!link.ok()) co_return link.status();
    same = link->empty() || *link == begin_at_.link;
  }
  checked_ = true;
  if (same) co_return absl::OkStatus();
  {
    const std::scoped_lock lock(mutex_);
    ++status_.new_ledgers;
    status_.last_error = fmt::format(
        "the position of sink {} is of another ledger, at its record {}: this one is delivered from its "
        "beginning",
        options_.name, begin_at_.seq);
    status_.last_error_at = net::Now();
    status_.delivered_seq = 0;
  }
  NotifyChange(SinkChange::kNewLedger);
  co_return absl::OkStatus();
}

// A failed batch is kept and sent again unchanged, so that the peer can recognize it.
net::Task<absl::Status> AuditDelivery::NextBatch() {
  if (count_ > 0) co_return absl::OkStatus();
  if (!checked_) {
    if (absl::Status checked = co_await CheckPosition(); !checked.ok()) co_return checked;
  }
  if (read_.empty()) {
    absl::StatusOr<std::vector<Record>> read = std::vector<Record>();
    if (const uint64_t after = status_.delivered_seq; source_.last_seq() > after) {
      read = co_await net::OffLoop(loop_, [this, after] { return source_.read(after, max_records_); });
    }
    {
      const std::scoped_lock lock(mutex_);
      read_at_ = net::Now();
    }
    if (!read.ok()) co_return read.status();
    read_ = *std::move(read);
  }
  if (!read_.empty()) TakeBatch();
  co_return absl::OkStatus();
}

// As many of those read as the sink takes at once. A gap ends a batch, so that what is missing is always
// before its first record.
void AuditDelivery::TakeBatch() {
  const size_t left = read_.size() - begin_;
  const bool more = read_.size() >= max_records_;  // than were read
  const Record* record = &read_[begin_];
  size_t bytes = 0;
  do {
    bytes += record->line.size() + 1;
    ++record;
    ++count_;
  } while (count_ < std::min(left, max_records_) && record->seq == record[-1].seq + 1 &&
           bytes + record->line.size() <= sink_->limits().bytes);
  full_ = more || count_ < left;
  NoteGap();
  const std::scoped_lock lock(mutex_);
  oldest_ = batch().front().at;
}

net::Task<absl::Status> AuditDelivery::DeliverBatch() {
  delivering_ = true;
  const absl::Status delivered =
      co_await sink_->Deliver(batch(), until_.value_or(plugins::sinks::kOwnTimeout));
  delivering_ = false;
  if (!delivered.ok()) {
    if (delivered.code() == absl::StatusCode::kResourceExhausted && count_ > 1) {
      max_records_ = count_ /= 2;
      full_ = true;
    }
    co_return delivered;
  }
  const Record& last = batch().back();
  Delivered(
      co_await options_.save(fmt::format("{}{}{}\n", last.seq, last.link.empty() ? "" : " ", last.link)));
  co_return absl::OkStatus();
}

// A sink that is new begins with what the ledger still has.
void AuditDelivery::NoteGap() {
  const uint64_t expected = status_.delivered_seq + 1;
  if (status_.delivered_seq == 0 || batch().front().seq <= expected) return;
  const uint64_t gone = batch().front().seq - expected;
  {
    const std::scoped_lock lock(mutex_);
    status_.missing += gone;
    status_.last_error =
        fmt::format("{} records from {} on were not delivered: they are removed from the ledger or damaged",
                    gone, expected);
    status_.last_error_at = net::Now();
    status_.delivered_seq += gone;
  }
  NotifyChange(SinkChange::kMissing);
}

// A position that could not be saved is an error to see, but the sink has the records: go on, and save the
// next one.
void AuditDelivery::Delivered(const absl::Status& saved) {
  backoff_.Reset();
  const bool failing = !saved.ok();
  bool changed = false;
  {
    const std::scoped_lock lock(mutex_);
    status_.delivered_seq = batch().back().seq;
    status_.records += count_;
    oldest_.reset();
    changed = status_.failing != failing;
    status_.failing = failing;
    if (failing) {
      ++status_.failures;
      status_.last_error = conf::Std(saved.message());
      status_.last_error_at = net::Now();
    }
  }
  begin_ += std::exchange(count_, 0);
  if (begin_ == read_.size()) {
    read_.clear();
    begin_ = 0;
  }
  if (changed) NotifyChange(failing ? SinkChange::kFails : SinkChange::kDelivers);
}

void AuditDelivery::Failed(const absl::Status& why) {
  bool changed = false;
  {
    const std::scoped_lock lock(mutex_);
    changed = !status_.failing;
    status_.failing = true;
    ++status_.failures;
    status_.last_error = conf::Std(why.message());
    status_.last_error_at = net::Now();
  }
  if (changed) NotifyChange(SinkChange::kFails);
}

void AuditDelivery::NotifyChange(SinkChange change) {
  if (options_.on_change) options_.on_change(change, status(net::Now()));
}

}  // namespace gateway
