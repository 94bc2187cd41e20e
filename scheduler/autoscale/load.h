// Load: the number of replicas that the requests of a model keep busy now. The greatest of
//
//   work spread    work that arrives, averaged over half of the time that an answer takes
//   work for sure  the mean work of the last 10 or 40 s, less two standard deviations of chance
//   occupancy      places in batches and KV caches that are in use, averaged over 5 s
//
// The work of an answer is done while it is written, not when its request comes. So `work spread` is the work that is
// due soon; by Little's law an answer takes as many seconds as there are running requests for each request a second.
// `work for sure` shows a jump before it is due; chance is how much the work of one second differs from that of the
// next. `occupancy` shows load that the estimated work misses, where answers are longer than expected.
//
// Owner: the demand law. Pure but for its memory.
#pragma once

namespace scheduler::autoscale {

class Load {
 public:
  // The work spread covers at most `longest` seconds.
  explicit Load(double longest);

  struct Tick {
    double work = 0;      // seconds of a replica that arrive in a second
    double running = 0;   // requests at replicas
    double came = 0;      // first tokens in this tick
    double occupied = 0;  // replicas
    double passed = 0;    // seconds since the last tick; 0: the first one
  };
  double Next(const Tick& tick);

 private:
  double Spread(const Tick& tick);
  double Sure(const Tick& tick);

  double longest_;
  double request_seconds_ = 0;  // at replicas, like the next one over the last minutes
  double came_ = 0;
  double spread_ = 0;
  double soon_ = 0;  // mean work of the last 10 s, and of 40
  double later_ = 0;
  double before_ = 0;  // work of the last tick
  double noise_ = 0;   // variance of a second's work, by chance
  double occupied_ = 0;
};

}  // namespace scheduler::autoscale
