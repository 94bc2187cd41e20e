// How results of a shared batch come to count: what its runner has on the disk and not in the bucket yet is
// uploaded as parts, and one write of the batch says that these parts are its results. Until then another gateway
// that takes the batch over sends their lines again; from then on no line of them is sent again.
//
//   record of the parts (bucket_removals.h) → parts → one commit: the batch has the parts, their records are
//   forgotten, parts that larger ones replace are to be removed
//
// That commit names the version of the batch that this gateway knows. So a former runner commits nothing, and what it
// has uploaded is removed.
#pragma once

#include <absl/status/status.h>

#include <memory>

#include "gateway/batches/batch_run.h"
#include "gateway/batches/files.h"
#include "gateway/batches/stored_batches.h"

namespace gateway::batches {

// All that was on the disk at the call counts when it returns Ok. One try. PermissionDenied: another gateway runs
// the batch now, or it has ended. All must outlive it.
net::Task<absl::Status> CommitResults(Files& files, StoredBatches& stored, std::shared_ptr<BatchRun> run);

}  // namespace gateway::batches
