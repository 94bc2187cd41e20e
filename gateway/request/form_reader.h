// FormReader: reads a multipart body piece by piece, as `read_body` and then the upstream need it, and keeps
// what was read, so that it can be sent again.
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

// Why a body that ended with `status`, which is not kOk, cannot be used. `most`: the bytes allowed. The
// reason is that of an admitted request.
Failure BodyFailure(net::http::ServerConnection::Status status, uint64_t most);

// Why it has no room.
Failure RoomFailure(const BodyMemory::Hold& room);

class FormReader {
 public:
  // `most`: the bytes that the body may have.
  FormReader(Client& client, RequestBody& body, Timeline& at, ShardCells& cells, uint64_t most)
      : client_(client), body_(body), at_(at), cells_(cells), most_(most) {}

  // The next piece of the form, empty at its end; it is scanned and kept by then. False: failure() says why.
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
