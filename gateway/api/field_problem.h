// What is wrong with one field of a request to the admin API or of a command.
#pragma once

#include <string>

namespace gateway {

struct FieldProblem {
  std::string field;
  std::string message;  // what is wrong with it and what would be right
};

}  // namespace gateway
