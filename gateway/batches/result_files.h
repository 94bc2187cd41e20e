// ResultFiles: the two files that a batch writes: answers, and lines that failed. Each input line has one line
// in one of them. Of a batch of messages all are in the first.
//
// They are the truth of what is done: a line counts once its result is on disk, and a gateway that was killed
// reads here where to go on. Only whole lines are kept: what a crash has torn is cut off at the next Open. Those of
// a shared batch are on the disk of its runner, and count once they are in the bucket (result_commit.h).
//
// All calls but Render block; one thread at a time.
#pragma once

#include <absl/container/flat_hash_set.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/batches/batch.h"
#include "gateway/batches/kept_file.h"
#include "gateway/batches/line_result.h"

namespace gateway::batches {

class ResultFiles {
 public:
  struct Progress {
    uint64_t completed = 0;
    uint64_t failed = 0;
    uint64_t unsent = 0;  // of the failed
    BatchUsage usage = {};
    // Of the whole files, after what was counted; their ends are ends of frames.
    FileExtent output = {};
    FileExtent errors = {};
  };
  struct Done {
    absl::flat_hash_set<std::string> custom_ids = {};
    Progress progress = {};
  };

  // `key`: as KeptFile has it.
  ResultFiles(std::string output_path, std::string error_path, bool of_messages = false,
              ledger::ContentKeyRef key = nullptr);

  // Makes the files where they are missing, and reads what they have.
  absl::StatusOr<Done> Open();
  // All of them, or none. On disk when it returns.
  absl::StatusOr<Progress> Append(std::span<const LineResult> results);
  const std::string& output_path() const { return output_.path; }
  const std::string& error_path() const { return errors_.path; }
  uint64_t output_bytes() const { return output_.bytes; }
  uint64_t error_bytes() const { return errors_.bytes; }
  // Removes those that are empty.
  absl::Status RemoveEmpty();

 private:
  struct File {
    std::string path;
    std::optional<KeptFile> kept = {};
    uint64_t bytes = 0;  // of whole lines that are on disk
    FileExtent extent() const { return kept->extent(); }
  };
  absl::Status OpenFile(File& file, Done& done) const;
  static absl::Status Write(File& file, std::string_view text);

  const bool of_messages_;
  const ledger::ContentKeyRef key_;
  File output_;
  File errors_;
  bool torn_ = false;  // an Append failed, and its lines may still stand there
};

}  // namespace gateway::batches
