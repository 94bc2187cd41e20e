// MessageRequests: takes the body that creates a batch of messages apart while it streams through, and makes
// the input of a batch of it: a line for each of its requests.
//
// The body is {"requests": [{"custom_id", "params"}, …]}; each request becomes
// {"custom_id", "method": "POST", "url": "/v1/messages", "body": params}, as input_index.h reads it.
//
// Sans-IO. Memory: the text of one request, kMaxLineBytes at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gateway::batches {

class MessageRequests {
 public:
  static constexpr uint64_t kMostGrowth = 3;  // a line beside the shortest request

  // Takes the next bytes of the body, split anywhere, and appends the lines that are whole to `lines`. False:
  // error() says why.
  bool Feed(std::string_view bytes, std::string& lines);
  // At the end of the body: whether it is whole and has a request.
  bool Finish();

  const std::string& error() const { return error_; }
  // The member that is wrong, e.g. `requests[3].custom_id`; empty: the body is no JSON of that form.
  const std::string& param() const { return param_; }
  uint64_t count() const { return count_; }

 private:
  enum class Phase : uint8_t {
    kStart,
    kName,
    kInName,
    kColon,
    kArray,
    kRequest,  // or the end of the array
    kInRequest,
    kAfterRequest,
    kAfterArray,
    kEnd,
  };
  // How deep the text stands in objects, arrays and a string.
  struct Nesting {
    // Whether an object, an array or a string ends with this character.
    bool EndsWith(char c);

    size_t depth = 0;
    bool in_string = false;
    bool escaped = false;
  };

  bool Fail(std::string error, std::string param = {});
  bool FailRequest(std::string_view why, std::string_view member = {});
  bool Take(char c, std::string& lines);
  bool EndName();
  bool EndRequest(std::string& lines);

  Phase phase_ = Phase::kStart;
  std::string name_;
  Nesting nesting_;
  std::string request_;
  uint64_t count_ = 0;
  std::string error_;
  std::string param_;
};

}  // namespace gateway::batches
