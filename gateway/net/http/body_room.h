// BodyRoom: the memory that a request's body may take. Asked before it is taken.
#pragma once

#include <cstdint>

namespace gateway::net::http {

class BodyRoom {
 public:
  // Whether the body may take this many bytes in all. The memory is released with this object.
  virtual bool GrowTo(uint64_t bytes) = 0;

 protected:
  virtual ~BodyRoom() = default;
};

}  // namespace gateway::net::http
