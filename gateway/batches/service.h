// Service: what the calls of /v1/files and /v1/batches ask for. Shards hand a call over and get its answer
// back; the bytes of uploads and downloads they move themselves.
//
// Owner: the process. Thread: Call is for any; the rest for the loop's.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/api/error.h"
#include "gateway/batches/batches.h"
#include "gateway/batches/files.h"
#include "gateway/batches/listing.h"
#include "gateway/net/loop.h"
#include "gateway/net/watchdog.h"
#include "gateway/people/principal.h"
#include "gateway/store/store.h"

namespace gateway::batches {

enum class Op : uint8_t {
  kHoldFile,  // room for an upload: `upload.bytes` at most
  kKeepFile,  // the upload is written
  kAbandonFile,
  kListFiles,
  kGetFile,
  kFileContent,
  kDeleteFile,
  kCreateBatch,
  kCreateMessages,  // the upload is the input that message_requests.h makes
  kListBatches,
  kGetBatch,
  kCancelBatch,
  kBatchResults,  // of messages
  kDeleteBatch,   // of messages
};

struct Call {
  Op op = Op::kListFiles;
  bool of_messages = false;  // the batch, and how it is shown
  PrincipalRef principal = {};
  std::string id = {};     // of the file or batch
  std::string query = {};  // behind the '?'
  std::string body = {};
  Files::Upload upload = {};
};

struct Reply {
  std::optional<api::ApiError> error = {};
  std::string json = {};    // the answer's body
  Files::Place place = {};  // kHoldFile; kFileContent and kBatchResults: the path, and the bytes it has
};

class Service final : private net::Alarm {
 public:
  // All must outlive it.
  Service(net::Loop& loop, store::Store& store, ledger::ContentKeys* keys, std::string dir,
          Batches::Environment environment);

  // `done` is called once, on the loop. Any thread.
  void Take(Call call, std::function<void(Reply)> done);

  net::Task<absl::Status> Start();
  // Once requests can be sent.
  void Begin();
  void Drain() { batches_.Drain(); }
  // Batches that are not left to other gateways yet, after Drain().
  bool leaving() const { return batches_.leaving(); }
  void Stop();

  Files& files() { return files_; }
  const Files& files() const { return files_; }
  const Batches& batches() const { return batches_; }

 private:
  net::Task<void> Answer(Call call, std::function<void(Reply)> done);
  net::Task<Reply> ReplyTo(Call call);
  net::Task<void> CatchUp();
  Reply ListFiles(const Call& call);
  Reply ListBatches(const Call& call);
  Reply Listing(const std::vector<Listed>& all, const Page& page);
  net::Task<Reply> DeleteFile(Call call);
  net::Task<Reply> CreateBatch(Call call);
  net::Task<Reply> CreateMessages(Call call);
  net::Task<Reply> DeleteBatch(Call call);
  net::Task<Reply> ContentOf(Call call, std::string id);
  void OnAlarm() override;
  net::Task<void> Sweep();

  net::Loop& loop_;
  const std::function<std::shared_ptr<const Runtime>()> runtime_;
  Files files_;
  Batches batches_;
  PlacesOfPages places_;
  bool sweeping_ = false;
  bool stopped_ = false;
};

}  // namespace gateway::batches
