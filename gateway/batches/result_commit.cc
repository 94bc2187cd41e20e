#include "gateway/batches/result_commit.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gateway/net/clock.h"

namespace gateway::batches {
namespace {

// One of the two result files of a batch.
struct ResultFile {
  ResultParts Batch::* parts;
  std::string id;
  std::string path;
  FileExtent end;
};

// A part that was uploaded, and the parts that were there then.
struct NewPart {
  ResultParts Batch::* of;
  ResultPart part;
  ResultParts before;
  size_t kept = 0;
};

// False: it has other parts than it had then.
bool Put(const NewPart& made, Batch& batch) {
  ResultParts& parts = batch.*made.of;
  if (parts != made.before) return false;
  parts.resize(made.kept);
  parts.push_back(made.part);
  return true;
}

}  // namespace

net::Task<absl::Status> CommitResults(Files& files, StoredBatches& stored, std::shared_ptr<BatchRun> run) {
  const conf::TimePoint began = net::Now();
  const ResultFiles::Progress until = run->on_disk();
  const Batch& of = run->batch();
  const LineCounts counts = run->counts();
  const auto parts_of = [&](ResultParts Batch::* parts) {
    const Batch* const batch = stored.Find(of.id);
    return batch == nullptr ? ResultParts() : batch->*parts;
  };
  std::vector<NewPart> made;
  absl::Status done;
  for (const ResultFile& file :
       {ResultFile{&Batch::output_parts, of.output_file, run->files().output_path(), until.output},
        ResultFile{&Batch::error_parts, of.error_file, run->files().error_path(), until.errors}}) {
    ResultParts before = parts_of(file.parts);
    if (ExtentOf(before).stored >= file.end.stored) continue;
    const NextPart next = PlanNextPart(before, file.end);
    absl::StatusOr<ResultPart> part = co_await files.PutPart(file.id, file.path, next.from, file.end);
    done = part.status();
    if (!done.ok()) break;
    made.push_back(
        {.of = file.parts, .part = *std::move(part), .before = std::move(before), .kept = next.kept});
  }
  if (done.ok()) {
    std::vector<store::Write> also;
    for (const NewPart& one : made) {
      also.push_back(files.Counting(one.part));
      for (const ResultPart& replaced : std::span(one.before).subspan(one.kept))
        also.push_back(files.Discarding(replaced));
    }
    const auto edit = [&](Batch& batch) {
      batch.counts = counts;
      batch.usage = until.usage;
      batch.paused.clear();
      return std::ranges::all_of(made, [&](const NewPart& one) { return Put(one, batch); });
    };
    // Aborted: it may have been cancelled meanwhile.
    for (int attempt = 0; attempt < store::kChangeAttempts; ++attempt) {
      done = co_await stored.ChangeRun(of.id, of.epoch, edit, also);
      if (!absl::IsAborted(done)) break;
    }
  }
  for (const NewPart& one : made) files.Release(one.part);
  if (done.ok()) run->OnCommitted(until, began);
  co_return done;
}

}  // namespace gateway::batches
