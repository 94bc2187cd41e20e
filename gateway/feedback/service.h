// Service: takes what applications say of answers, and records it. Shards hand a call over and get its answer
// back.
//
// One thread takes all calls that wait: it finds their requests by the ledger's index, appends all records at
// once, and answers when they are on disk. So an acknowledged feedback survives any death of the process, and
// the rate does not depend on how long a commit takes.
//
// Owner: the process. Thread: any but the service's own, unless a function says otherwise. Bounded: kMaxWaiting
// calls wait, kMaxOfTenant of one tenant.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gateway/api/error.h"
#include "gateway/feedback/feedback_request.h"
#include "gateway/ledger/content_keys.h"
#include "gateway/ledger/index.h"
#include "gateway/ledger/ledger.h"
#include "gateway/people/principal.h"

namespace gateway::feedback {

struct Call {
  PrincipalRef principal = {};
  std::optional<GivenFeedback> given = {};  // nothing: `request` is asked for
  std::string request = {};
  bool passed = false;  // by another gateway, which does not have the request
};

struct Reply {
  std::optional<api::ApiError> error = {};
  std::string json = {};
};

class Service {
 public:
  static constexpr size_t kMaxWaiting = 1024;
  static constexpr size_t kMaxOfTenant = 256;
  static constexpr size_t kMaxNames = 32;  // of one key for one request

  using Done = std::function<void(Reply)>;

  // All must outlive it. `keys` may be null: then comments and corrections are refused.
  Service(std::string ledger_dir, ledger::Ledger& ledger, ledger::ContentKeys* keys);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // What becomes of a call whose request is not in this ledger, with the refusal that it would have. Called on the
  // service's thread. `tag`: of the requests that this gateway serves now. Set before the first call.
  using Elsewhere = std::function<void(Call, Reply refused, Done)>;
  void SetElsewhere(uint16_t tag, Elsewhere elsewhere) {
    tag_ = tag;
    elsewhere_ = std::move(elsewhere);
  }

  // `done` is called once, on the service's thread; on the caller's where too many wait.
  void Take(Call call, Done done);
  // What waits is refused, and so are later calls.
  void Stop();

  // Recorded since the start, by the model that was asked: true, false, numbers and texts.
  static constexpr size_t kMaxModels = 512;  // of further ones, in "other"
  using Counts = std::array<uint64_t, 4>;
  std::map<std::string, Counts> counts() const;
  static std::string_view CountName(size_t i);  // "true", "false", "number", "text"

 private:
  struct Waiting {
    Call call;
    Done done;
    Reply reply = {};
    std::optional<ledger::Feedback> record = {};
    bool settled = false;  // it has its reply
    bool missing = false;  // since there is no such request here
  };

  void Run();
  void Handle(std::vector<Waiting>& calls);
  absl::Status OpenIndex();
  // Whether it may be a request that this gateway has just admitted.
  bool MayBeNew(std::string_view request) const;
  // Fills what each call is about; a call whose request is not the caller's gets its refusal.
  absl::Status FindAll(std::vector<Waiting>& calls);
  absl::Status Prepare(Waiting& waiting, const ledger::FoundRequest& found);
  absl::Status Show(Waiting& waiting);
  void Count(const ledger::Feedback& feedback);
  absl::StatusOr<ledger::ContentKeyRef> KeyOf(const Principal& principal);

  const std::string dir_;
  ledger::Ledger& ledger_;
  ledger::ContentKeys* const keys_;
  Elsewhere elsewhere_;                   // none: this gateway is alone
  std::optional<uint16_t> tag_;           // likewise
  std::unique_ptr<ledger::Index> index_;  // the thread's

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::deque<Waiting> waiting_;
  absl::flat_hash_map<std::string, size_t> of_tenant_;
  std::map<std::string, Counts> counts_;
  bool stopping_ = false;
  std::thread thread_;  // last
};

}  // namespace gateway::feedback
