#include "gateway/batches/place_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/net/off_loop.h"

namespace gateway::batches {
namespace {

using ReadStatus = net::http::ClientConnection::Status;

constexpr size_t kReadPiece = 1u << 20;
constexpr size_t kObjectPiece = 256u << 10;  // text that is gathered before it goes on

absl::Status TooShort(const Files::Place& place, uint64_t read) {
  return absl::DataLossError(
      conf::Abseil(fmt::format("{} has {} bytes; it should have {}", place.id, read, place.most_bytes)));
}

}  // namespace

PlaceReader::PlaceReader(net::Loop& loop, Files::Place place)
    : loop_(loop), place_(std::move(place)), frames_(place_.key) {}

net::Task<absl::Status> PlaceReader::Open() {
  if (place_.objects.empty()) {
    absl::StatusOr<KeptFile> file = co_await net::OffLoop(
        loop_, [this] { return KeptFile::Open(place_.path, place_.key, KeptFile::Access::kRead); });
    if (!file.ok()) co_return file.status();
    file_ = *std::move(file);
    co_return absl::OkStatus();
  }
  bucket_.emplace(loop_, *place_.bucket);
  co_return co_await OpenObject();
}

net::Task<absl::Status> PlaceReader::OpenObject() {
  connection_.reset();
  auto opened = co_await bucket_->Open(place_.objects[object_]);
  if (!opened.ok()) co_return opened.status();
  connection_ = *std::move(opened);
  co_return absl::OkStatus();
}

net::Task<absl::Status> PlaceReader::Next(std::string& piece) {
  piece.clear();
  if (read_ == place_.most_bytes) co_return absl::OkStatus();
  if (connection_ != nullptr) {
    if (absl::Status got = co_await NextOfObject(piece); !got.ok()) co_return got;
  } else {
    piece.resize(std::min<uint64_t>(kReadPiece, place_.most_bytes - read_));
    const absl::StatusOr<size_t> got =
        co_await net::OffLoop(loop_, [this, &piece] { return file_->ReadAt(read_, piece); });
    if (!got.ok()) co_return got.status();
    piece.resize(*got);
  }
  if (piece.empty()) co_return TooShort(place_, read_);
  // The rest, if any, is of a later Append that the store has not heard of.
  if (piece.size() > place_.most_bytes - read_) piece.resize(place_.most_bytes - read_);
  read_ += piece.size();
  co_return absl::OkStatus();
}

net::Task<absl::Status> PlaceReader::NextOfObject(std::string& piece) {
  while (true) {
    const std::string_view payload = connection_->payload();
    if (absl::Status fed = frames_.Feed(payload, piece); !fed.ok()) co_return fed;
    connection_->Take(payload.size());
    if (piece.size() >= kObjectPiece) co_return absl::OkStatus();
    if (connection_->done()) {
      if (object_ + 1 == place_.objects.size()) co_return absl::OkStatus();
      ++object_;
      if (absl::Status opened = co_await OpenObject(); !opened.ok()) co_return opened;
      continue;
    }
    const ReadStatus status = co_await connection_->ReadSome(net::Now() + place_.bucket->web.silence);
    if (status == ReadStatus::kOk) continue;
    co_return absl::UnavailableError(conf::Abseil(fmt::format(
        "the bucket closed the connection, or was silent for too long, in {}", place_.objects[object_])));
  }
}

absl::StatusOr<std::string> ReadPlace(Files::Place place, uint64_t most_bytes) {
  if (place.most_bytes > most_bytes) {
    return absl::ResourceExhaustedError(conf::Abseil(
        fmt::format("{} has {} bytes; at most {} are read", place.id, place.most_bytes, most_bytes)));
  }
  net::Loop own([](std::exception_ptr) {});  // Await throws
  PlaceReader reader(own, std::move(place));
  const auto read = [](PlaceReader& from) -> net::Task<absl::StatusOr<std::string>> {
    if (absl::Status opened = co_await from.Open(); !opened.ok()) co_return opened;
    std::string text;
    std::string piece;
    while (true) {
      if (absl::Status got = co_await from.Next(piece); !got.ok()) co_return got;
      if (piece.empty()) co_return text;
      text += piece;
    }
  };
  return net::Await(own, read(reader));
}

}  // namespace gateway::batches
