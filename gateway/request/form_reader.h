// FormReader: reads a multipart body piece by piece, first for `read_body` and then for the upstream. Keeps what
// it has read, so that the body can be sent again.
//
// Lives in the frame of the stage that reads. Thread: the shard's.
#pragma once

#include <optional>
#include <string_view>

#include "gateway/metrics/shard_metrics.h"
#include "gateway/net/task.h"
#include "gateway/request/client.h"
#include "gateway/request/failure.h"
#include "gateway/request/request_body.h"
#include "gateway/request/timeline.h"

namespace gateway {

// Why a body that ended with `status`, which is not kOk, cannot be used. `most`: the bytes allowed. The reason
// for the ledger is that of an admitted request.
Failure BodyFailure(net::http::ServerConnection::Status status, uint64_t most);

// Why the body has no room in memory.
Failure RoomFailure(const BodyMemory::Hold& room);

class FormReader {
 public:
  // `most`: the bytes allowed.
  FormReader(Client& client, RequestBody& body, Timeline& at, ShardCells& cells, uint64_t most)
      : client_(client), body_(body), at_(at), cells_(cells), most_(most) {}

  // Reads, scans and keeps the next piece of the form; the piece is empty at the end. False: failure() says why.
  net::Task<bool> Next(std::string_view& piece);
  const std::optional<Failure>& failure() const { return failure_; }

  Client& client() { return client_; }
  RequestBody& body() { return body_; }

 private:
  Client& client_;
  RequestBody& body_;
  Timeline& at_;
  ShardCells& cells_;
  const uint64_t most_;
  std::optional<Failure> failure_;
};

}  // namespace gateway
