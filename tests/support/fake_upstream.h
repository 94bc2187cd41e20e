// A server with scripted answers, an engine or any other: it reads each request whole, keeps it, sends the
// bytes that were set last, and closes the connection. On loopback, on a thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <semaphore>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace tests {

class FakeUpstream {
 public:
  struct Request {
    std::string head;  // with its empty line
    std::string body;

    // The value of a header field, by its name in lower case, as the gateway sends it; "" if it is missing.
    std::string field(std::string_view name) const;
  };

  // `answer`: head and body as on the wire. Empty: accepts no connection, and further ones cannot even
  // connect. `port`: 0 for a free one.
  explicit FakeUpstream(std::string answer, uint16_t port = 0);
  ~FakeUpstream();

  uint16_t port() const { return port_; }
  uint64_t requests() const { return requests_; }
  std::vector<Request> seen() const;  // all of them, in order
  void Say(std::string answer);       // from the next request on; not empty
  // The same in pieces; most likely each is read before the next is sent.
  void SayInPieces(std::vector<std::string> pieces);
  // The same, but each piece after the first waits for a call of Next. Answers only POST.
  void SayInTurns(std::vector<std::string> pieces);
  void Next() { turns_.release(); }
  // Answers as soon as it has the head of a request, and closes without reading the rest.
  void AnswerEarly() { early_ = true; }

 private:
  void Serve();
  void Answer(int connection);
  static bool SendAll(int connection, std::string_view bytes);
  void FillBacklog();

  mutable std::mutex mutex_;
  std::vector<std::string> answer_;  // in pieces; guarded by mutex_
  bool in_turns_ = false;            // guarded by mutex_
  std::vector<Request> seen_;        // guarded by mutex_
  std::counting_semaphore<> turns_{0};
  int listener_ = -1;
  int filler_[4] = {-1, -1, -1, -1};
  uint16_t port_ = 0;
  std::atomic<uint64_t> requests_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> early_{false};
  std::thread thread_;
};

// An answer of this status with a JSON body.
std::string JsonAnswer(std::string_view body, int status = 200);

}  // namespace tests
