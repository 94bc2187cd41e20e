// AWS Signature Version 4, as S3 and its likes demand it. Pure.
// Source: "Signature Calculations for the Authorization Header", Amazon S3 API Reference.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/time.h"

namespace plugins::weights {

struct S3Keys {
  std::string region{};
  std::string access_key{};
  std::string secret_key{};
  std::string session_token{};  // may be empty
};

struct S3Request {
  std::string method = "GET";
  std::string host{};         // the value of the Host field
  std::string path{};         // encoded once, as sent
  std::string query{};        // of the request's target, without '?'
  std::string body_sha256{};  // hex; empty: there is no body
};

// The fields that sign the request, as sent at `now`.
std::vector<std::pair<std::string, std::string>> SignS3(const S3Request& request, const S3Keys& keys,
                                                        conf::TimePoint now);

// With the bucket in the path.
std::string S3BucketUrl(std::string_view endpoint, std::string_view bucket);
// A key as a path: all but unreserved characters and '/' encoded.
std::string EncodeS3Key(std::string_view key);

}  // namespace plugins::weights
