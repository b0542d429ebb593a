// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/workload/sample_batch.hpp>

namespace block {

/// A rank's data loader: the lengths of what it reads in each step, images of three sizes.
class step_reader {
 public:
  step_reader(std::size_t ranks, ballast::rank_id rank) : ranks_(ranks), rank_(rank) {}

  std::vector<ballast::tokens> next()
  {
    or_throw(ballast::draw_batch(batch_, codes_, ranks_, {}, random_));
    std::vector<ballast::tokens> read;
    for (std::size_t sample = 0; sample < batch_.lengths.size(); ++sample) {
      if (batch_.source[sample] == rank_) { read.push_back(batch_.lengths[sample]); }
    }
    return read;
  }

 private:
  std::size_t ranks_;
  ballast::rank_id rank_;
  ballast::random_source random_ = ballast::random_source(7);  // all ranks draw the same batch
  std::vector<ballast::data_code> codes_ =
      ballast::parse_data_codes("g4b4i128f1s0,g2b2i256f1s0,g2b1i384f1s0").value();
  ballast::sample_batch batch_;
};

}  // namespace block
