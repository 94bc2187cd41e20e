#include "gateway/batches/batch_run.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/files.h"
#include "gateway/net/off_loop.h"

namespace gateway::batches {
namespace {

constexpr size_t kReadAheadLines = 64;
constexpr size_t kReadAheadBytes = 4u << 20;  // at least one line
constexpr size_t kReadAgainBelow = 16;
constexpr size_t kMostPending = 256;  // results that wait for the disk
constexpr size_t kRestLines = 256;    // written at once when a batch ends early
constexpr conf::Duration kDiskPause = std::chrono::seconds(1);
constexpr conf::Duration kMostRest = std::chrono::minutes(5);
constexpr conf::Duration kLongestCommitPause = std::chrono::seconds(10);

}  // namespace

BatchRun::BatchRun(net::Loop& loop, Batch batch, Input input, ResultFiles files, std::function<void()> wake,
                   CommitTimes times)
    : loop_(loop),
      batch_(std::move(batch)),
      input_(std::move(input)),
      files_(std::move(files)),
      wake_(std::move(wake)),
      times_(times) {}

net::Task<absl::Status> BatchRun::Open(IndexOptions options) {
  struct Opened {
    ResultFiles::Done done;
    InputIndex index;
    KeptFile input;
  };
  absl::StatusOr<Opened> opened = co_await net::OffLoop(loop_, [this, &options]() -> absl::StatusOr<Opened> {
    absl::StatusOr<ResultFiles::Done> done = files_.Open();
    if (!done.ok()) return done.status();
    options.done = &done->custom_ids;
    absl::StatusOr<KeptFile> input = KeptFile::Open(input_.path, input_.key, KeptFile::Access::kRead);
    if (!input.ok()) return input.status();
    absl::StatusOr<InputIndex> index = IndexInput(*input, std::move(options));
    if (!index.ok()) return index.status();
    return Opened{*std::move(done), *std::move(index), *std::move(input)};
  });
  if (!opened.ok()) co_return opened.status();
  kept_input_ = std::move(opened->input);
  total_ = opened->index.total;
  progress_ = opened->done.progress;
  committed_.output = ExtentOf(batch_.output_parts);
  committed_.errors = ExtentOf(batch_.error_parts);
  uncommitted_since_ = net::Now();
  lanes_.clear();
  for (InputIndex::OfModel& of : opened->index.models) {
    Lane lane;
    lane.model = std::move(of.model);
    lane.waiting.assign(of.lines.begin(), of.lines.end());
    lanes_.push_back(std::move(lane));
  }
  co_return absl::OkStatus();
}

std::optional<BatchRun::Line> BatchRun::Take(conf::TimePoint now) {
  if (end_ || stopped_ || pending_.size() >= kMostPending || HeldBack(now)) return std::nullopt;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const size_t at = (next_lane_ + i) % lanes_.size();
    Lane& lane = lanes_[at];
    if (lane.ready.size() < kReadAgainBelow && !lane.waiting.empty() && !lane.reading) {
      lane.reading = true;
      loop_.tasks.Spawn(ReadAhead(shared_from_this(), at));
    }
    if (lane.ready.empty() || now < lane.rests_until || lane.in_flight >= lane.allowed) continue;
    Line line = std::move(lane.ready.front());
    lane.ready.pop_front();
    ++lane.in_flight;
    ++in_flight_;
    next_lane_ = at + 1;
    return line;
  }
  return std::nullopt;
}

std::optional<conf::TimePoint> BatchRun::NextAt(conf::TimePoint now) const {
  std::optional<conf::TimePoint> next;
  if (end_) return next;
  for (const Lane& lane : lanes_) {
    if (lane.ready.empty() || lane.rests_until <= now) continue;
    next = next ? std::min(*next, lane.rests_until) : lane.rests_until;
  }
  return next;
}

net::Task<void> BatchRun::ReadAhead(std::shared_ptr<BatchRun> self, size_t at) {
  std::vector<LineRef> refs;
  size_t bytes = 0;
  for (const LineRef& ref : self->lanes_[at].waiting) {
    bytes += ref.bytes;
    if (!refs.empty() && (bytes > kReadAheadBytes || refs.size() >= kReadAheadLines)) break;
    refs.push_back(ref);
  }
  absl::StatusOr<std::vector<Line>> lines =
      co_await net::OffLoop(self->loop_, [&self, &refs] { return self->ReadLines(refs); });
  if (!lines.ok()) {
    if (!std::exchange(self->read_failed_, true)) {
      log::Error("lines of a batch cannot be read; retrying",
                 {{"batch", self->batch_.id}, {"why", conf::Std(lines.status().message())}});
    }
    net::Sleep pause(self->loop_.watchdog);
    co_await pause.For(kDiskPause);
    self->lanes_[at].reading = false;
    self->Changed();
    co_return;
  }
  self->read_failed_ = false;
  Lane& lane = self->lanes_[at];
  lane.reading = false;
  lane.waiting.erase(lane.waiting.begin(), lane.waiting.begin() + static_cast<ptrdiff_t>(refs.size()));
  for (Line& line : *lines) {
    line.lane = at;
    lane.ready.push_back(std::move(line));
  }
  self->Changed();
}

// Blocks.
absl::StatusOr<std::vector<BatchRun::Line>> BatchRun::ReadLines(const std::vector<LineRef>& refs) {
  const std::lock_guard lock(reading_);
  std::vector<Line> lines;
  std::string text;
  for (const LineRef& ref : refs) {
    text.resize(ref.bytes);
    const absl::StatusOr<size_t> read = kept_input_->ReadAt(ref.offset, text);
    if (!read.ok()) return read.status();
    std::variant<InputLine, BatchProblem> parsed = ParseInputLine(std::string_view(text).substr(0, *read));
    auto* const line = std::get_if<InputLine>(&parsed);
    if (line == nullptr)
      return absl::DataLossError(conf::Abseil(fmt::format("line {} has changed", ref.number)));
    lines.push_back({.lane = 0,
                     .ref = ref,
                     .custom_id = std::move(line->custom_id),
                     .body = std::move(line->body),
                     .tries = 0});
  }
  return lines;
}

void BatchRun::Left(const Line& line) {
  aborts_.erase(line.ref.number);
  --in_flight_;
  --lanes_[line.lane].in_flight;
}

void BatchRun::Ended(const Line& line, LineResult result) {
  Left(line);
  Lane& lane = lanes_[line.lane];
  lane.rest = kFirstRest;
  if (lane.allowed < ~0u / 2) lane.allowed *= 2;
  pending_.push_back(std::move(result));
  if (!writing_) {
    writing_ = true;
    loop_.tasks.Spawn(WriteResults(shared_from_this()));
  }
  Changed();
}

void BatchRun::Wait(Line line, std::optional<conf::Duration> least, conf::TimePoint now) {
  Left(line);
  Lane& lane = lanes_[line.lane];
  // Those that were sent together are refused together: one refusal counts.
  if (lane.rests_until <= now) {
    lane.rests_until = now + std::clamp(least.value_or(conf::Duration::zero()), lane.rest, kMostRest);
    lane.rest = std::min(lane.rest * 2, kLongestRest);
  }
  lane.allowed = 1;
  lane.ready.push_back(std::move(line));
  Changed();
}

void BatchRun::Drop(const Line& line) {
  Left(line);
  lanes_[line.lane].waiting.push_back(line.ref);
  Changed();
}

net::Task<void> BatchRun::WriteResults(std::shared_ptr<BatchRun> self) {
  while (!self->pending_.empty()) {
    std::vector<LineResult> results = std::exchange(self->pending_, {});
    self->being_written_ = results.size();
    const absl::StatusOr<ResultFiles::Progress> written =
        co_await net::OffLoop(self->loop_, [&self, &results] { return self->files_.Append(results); });
    self->being_written_ = 0;
    if (written.ok()) {
      self->write_failed_ = false;
      self->Count(*written);
      self->wake_();
      continue;
    }
    std::ranges::move(self->pending_, std::back_inserter(results));
    self->pending_ = std::move(results);
    if (!std::exchange(self->write_failed_, true)) {
      log::Error("results of a batch cannot be written; retrying",
                 {{"batch", self->batch_.id}, {"why", conf::Std(written.status().message())}});
    }
    if (self->stopped_) break;  // their lines are sent again after the next start
    net::Sleep pause(self->loop_.watchdog);
    co_await pause.For(kDiskPause);
  }
  self->writing_ = false;
  self->Changed();
}

void BatchRun::Count(const ResultFiles::Progress& written) {
  if (uncommitted() == 0) uncommitted_since_ = net::Now();
  progress_.completed += written.completed;
  progress_.failed += written.failed;
  progress_.unsent += written.unsent;
  progress_.usage.Add(written.usage);
  progress_.output = written.output;
  progress_.errors = written.errors;
}

uint64_t BatchRun::uncommitted() const {
  if (!batch_.shared) return 0;
  return progress_.output.stored - committed_.output.stored + progress_.errors.stored -
         committed_.errors.stored;
}

bool BatchRun::HasCommitted() const {
  return !batch_.shared || (progress_.output.stored >= committed_.output.stored &&
                            progress_.errors.stored >= committed_.errors.stored);
}

bool BatchRun::CommitDue(conf::TimePoint now) const {
  const uint64_t bytes = uncommitted();
  if (bytes == 0 || now < commit_again_) return false;
  return bytes >= kCommitBytes || now >= uncommitted_since_ + times_.age;
}

bool BatchRun::HeldBack(conf::TimePoint now) const {
  const uint64_t bytes = uncommitted();
  return bytes > 0 && (bytes >= kHeldBackBytes || now >= uncommitted_since_ + times_.held_back_age);
}

void BatchRun::OnCommitted(const ResultFiles::Progress& until, conf::TimePoint began) {
  committed_ = until;
  uncommitted_since_ = began;
  commit_pause_ = kFirstRest;
  commit_again_ = {};
  why_uncommitted_.clear();
  told_paused = false;
  Changed();
}

void BatchRun::OnCommitFailed(std::string why, conf::TimePoint now) {
  why_uncommitted_ = std::move(why);
  commit_again_ = now + commit_pause_;
  commit_pause_ = std::min(2 * commit_pause_, kLongestCommitPause);
}

void BatchRun::EndBy(End end, conf::TimePoint now) {
  if (end_) return;
  end_ = std::move(end);
  end_asked_ = now;
  Changed();
}

void BatchRun::Abort() {
  const auto aborts = std::exchange(aborts_, {});
  for (const auto& [number, abort] : aborts) abort();
}

void BatchRun::Stop() {
  stopped_ = true;
  Abort();
  Changed();
}

void BatchRun::Lose() {
  lost_ = true;
  Stop();
}

bool BatchRun::HasEnded() const {
  if (in_flight_ > 0 || writing_) return false;
  if (std::ranges::any_of(lanes_, [](const Lane& lane) { return lane.reading; })) return false;
  if (stopped_) return true;
  return pending_.empty() && (end_ || waiting() == 0);
}

void BatchRun::Changed() {
  // Posted, because the task that waits may destroy this object.
  if (HasEnded()) loop_.Post([self = shared_from_this()] { self->ended_.Set(); });
  wake_();
}

net::Task<void> BatchRun::AwaitEnd() {
  while (!HasEnded()) {
    ended_.Reset();
    co_await ended_.Wait();
  }
}

net::Task<absl::Status> BatchRun::WriteRest() {
  for (Lane& lane : lanes_) {
    for (const Line& line : std::exchange(lane.ready, {})) lane.waiting.push_back(line.ref);
    while (!lane.waiting.empty() && !stopped_) {
      const size_t n = std::min(lane.waiting.size(), kRestLines);
      const std::vector<LineRef> refs(lane.waiting.begin(), lane.waiting.begin() + static_cast<ptrdiff_t>(n));
      const absl::StatusOr<ResultFiles::Progress> written =
          co_await net::OffLoop(loop_, [this, &refs]() -> absl::StatusOr<ResultFiles::Progress> {
            absl::StatusOr<std::vector<Line>> lines = ReadLines(refs);
            if (!lines.ok()) return lines.status();
            std::vector<LineResult> results;
            for (Line& line : *lines) {
              results.push_back({.custom_id = std::move(line.custom_id),
                                 .status = 0,
                                 .request_id = {},
                                 .body = {},
                                 .code = end_->code,
                                 .message = end_->message});
            }
            return files_.Append(results);
          });
      if (!written.ok()) co_return written.status();
      Count(*written);
      lane.waiting.erase(lane.waiting.begin(), lane.waiting.begin() + static_cast<ptrdiff_t>(n));
    }
  }
  co_return absl::OkStatus();
}

net::Task<absl::Status> BatchRun::RemoveEmptyFiles() {
  co_return co_await net::OffLoop(loop_, [this] { return files_.RemoveEmpty(); });
}

LineCounts BatchRun::counts() const {
  return {.total = total_,
          .completed = progress_.completed,
          .failed = progress_.failed,
          .unsent = progress_.unsent};
}

uint64_t BatchRun::waiting() const {
  uint64_t waiting = 0;
  for (const Lane& lane : lanes_) waiting += lane.waiting.size() + lane.ready.size();
  return waiting;
}

}  // namespace gateway::batches
