// Charge: charges a request for what it used, instead of what was reserved.
#pragma once

#include "gateway/request/exchange.h"

namespace gateway {

// Completes the counts, settles the reservation and gives back its place. Called before the last bytes of an
// answer are sent, so that the client's next request finds room at once. Later calls do nothing.
void Charge(Exchange& x);

}  // namespace gateway
