// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pages {

/// Time that steps lost for one reason.
struct loss {
  double share = 0;    ///< of the time of all GPUs
  std::string what;    ///< why, in a sentence
  std::string remedy;  ///< what to change, in a sentence
};

/// What the steps of a log lost, why, and what to change.
struct verdict {
  std::string sentence = {};      ///< what was lost; empty where there were no such steps
  double share = 0;               ///< lost, of the time of all GPUs
  std::vector<loss> losses = {};  ///< the largest first; none where next to nothing was lost
};

/// How near the planned times came to the measured ones. Planned ones are in seconds by one factor
/// for the whole log, the median of measured time per unit of cost.
struct prediction {
  struct rank {
    double planned = 0;  ///< seconds, mean over the steps
    double measured = 0;
    double error = 0;   ///< median of |planned / measured - 1|
    double factor = 1;  ///< median of measured / planned, where those of a step have a median of 1
  };
  struct point {
    std::size_t rank = 0;
    std::uint64_t step = 0;
    double planned = 0;
    double measured = 0;
  };

  std::vector<point> points;  ///< a bounded number of them
  std::size_t steps = 0;      ///< that they are of
  std::vector<rank> ranks;    ///< of all ranks
  double correlation = 0;     ///< of planned and measured times
  double median_error = 0;    ///< of |planned / measured - 1|
  double fitted_error = 0;    ///< the same of a cost fitted to the log; 0 where none was
};

}  // namespace pages
