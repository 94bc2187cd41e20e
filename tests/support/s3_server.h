// A store of objects with the API of S3, for one bucket, which checks every signature and every body's hash. A test
// may stop its answers. Header only.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "conf/time.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/s3_signature.h"
#include "tests/support/file_server.h"

namespace tests {

class S3Server {
 public:
  static constexpr char kBucket[] = "files";
  static constexpr char kAccessKey[] = "AK";
  static constexpr char kSecretKey[] = "SK";
  static constexpr char kRegion[] = "eu-1";

  S3Server() : server_([this](const FileServer::Request& request) { return Answer(request); }) {}

  std::string url() const { return server_.url(); }
  // 0: connections are closed without an answer.
  void FailWith(int status) { fails_ = status; }
  void Recover() { fails_ = 200; }

  std::map<std::string, std::string> objects() const {
    const std::scoped_lock lock(mutex_);
    return objects_;
  }
  // "PUT prefix/key", of requests that came to an end.
  std::vector<std::string> log() const {
    const std::scoped_lock lock(mutex_);
    return log_;
  }
  void Remove(const std::string& key) {
    const std::scoped_lock lock(mutex_);
    objects_.erase(key);
  }
  void Change(const std::string& key, size_t at) {
    const std::scoped_lock lock(mutex_);
    objects_.at(key).at(at) ^= 1;
  }

 private:
  FileServer::Reply Answer(const FileServer::Request& request) {
    if (const int status = fails_; status != 200) return {.status = status};
    const std::string base = fmt::format("/{}", kBucket);
    if (!IsSigned(request)) return {.status = 403};
    if (request.target == base) return {.status = 200};
    if (!request.target.starts_with(base + "/")) return {.status = 404};
    const std::string key = request.target.substr(base.size() + 1);
    const std::scoped_lock lock(mutex_);
    log_.push_back(request.method + " " + key);
    if (request.method == "PUT") {
      objects_[key] = request.body;
      return {.status = 200};
    }
    if (request.method == "DELETE") {
      objects_.erase(key);
      return {.status = 204};
    }
    const auto found = objects_.find(key);
    return found == objects_.end() ? FileServer::Reply{.status = 404}
                                   : FileServer::Ranged(request, found->second);
  }

  static bool IsSigned(const FileServer::Request& request) {
    using plugins::weights::Sha256Hex;
    const std::string stamp = request.Field("x-amz-date");  // 20260102T030405Z
    if (stamp.size() != 16 || request.Field("x-amz-content-sha256") != Sha256Hex(request.body)) return false;
    const auto at = conf::ParseTime(fmt::format("{}-{}-{}T{}:{}:{}Z", stamp.substr(0, 4), stamp.substr(4, 2),
                                                stamp.substr(6, 2), stamp.substr(9, 2), stamp.substr(11, 2),
                                                stamp.substr(13, 2)));
    if (!at) return false;
    const auto fields = plugins::weights::SignS3(
        {.method = request.method,
         .host = request.Field("host"),
         .path = request.path(),
         .query = {},
         .body_sha256 = Sha256Hex(request.body)},
        {.region = kRegion, .access_key = kAccessKey, .secret_key = kSecretKey}, *at);
    return fields.front().second == request.Field("authorization");
  }

  mutable std::mutex mutex_;
  std::map<std::string, std::string> objects_;
  std::vector<std::string> log_;
  std::atomic<int> fails_{200};
  FileServer server_;
};

}  // namespace tests
