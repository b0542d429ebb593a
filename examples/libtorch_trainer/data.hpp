// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/text/read_file.hpp>
#include <ballast/workload.hpp>

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trainer {

struct data_options {
  std::string trace;   ///< CSV file of sample lengths; empty: lognormal ones
  std::string length;  ///< expression over its columns
  ballast::tokens shortest = 8;
  ballast::tokens longest = 96;
  std::size_t batch = 10;  ///< samples of a step, over all ranks
  std::uint64_t seed = 1;
};

/// The lengths of a trace, scaled down together until none is above `longest`, because attention in
/// float64 on a CPU takes its time. Then none is left below `shortest`: a bag refuses sequences
/// that have fewer tokens than it has GPUs.
[[nodiscard]] inline ballast::result<std::vector<ballast::tokens>> load_lengths(
    data_options const& options)
{
  ballast::result<std::vector<ballast::tokens>> lengths;
  if (options.trace.empty()) {
    ballast::random_source random(options.seed);
    ballast::lognormal_lengths const drawn{.median = 1024, .sigma = 0.8};
    lengths = ballast::draw_lengths(drawn, 4096, random);
  } else {
    lengths = ballast::read_file(options.trace, ballast::read_length_trace, options.length);
  }
  if (!lengths) { return lengths; }
  ballast::tokens const most = std::max(std::ranges::max(*lengths), options.longest);
  for (ballast::tokens& length : *lengths) {
    length = std::max(length * options.longest / most, options.shortest);
  }
  return lengths;
}

/// What one rank has read for a step: a row per token, sample after sample.
struct read_samples {
  std::vector<ballast::tokens> lengths;
  torch::Tensor token;     ///< int64
  torch::Tensor target;    ///< int64: the token that follows
  torch::Tensor position;  ///< int32: of the token in its sample
};

/// The data loader of one rank, which knows nothing of balancing.
///
/// A row of the trace stands for a text, the same whenever it is read: a chain of tokens, most of
/// which follow from the one before, so that there is something to learn.
class data_loader {
 public:
  data_loader(data_options const& options, std::vector<ballast::tokens> lengths, std::size_t ranks,
              ballast::rank_id rank, std::uint32_t vocabulary)
      : steps_(std::move(lengths), options.batch, ranks, options.seed),
        rank_(rank),
        vocabulary_(vocabulary),
        seed_(options.seed)
  {}

  [[nodiscard]] read_samples next()
  {
    steps_.next_into(batch_);
    read_samples read;
    std::vector<std::int64_t> token;
    std::vector<std::int64_t> target;
    std::vector<std::int32_t> position;
    for (std::size_t sample = 0; sample < batch_.lengths.size(); ++sample) {
      if (batch_.source[sample] != rank_) { continue; }
      read.lengths.push_back(batch_.lengths[sample]);
      ballast::random_source random(ballast::digest{}.add(seed_).add(batch_.rows[sample]).value());
      auto next = static_cast<std::int64_t>(random.below(vocabulary_));
      for (std::int32_t place = 0; place < batch_.lengths[sample]; ++place) {
        token.push_back(next);
        position.push_back(place);
        bool const follows = random.below(8) > 0;
        next = follows ? (5 * next + 3) % vocabulary_
                       : static_cast<std::int64_t>(random.below(vocabulary_));
        target.push_back(next);
      }
    }
    read.token = torch::tensor(token, torch::kLong);
    read.target = torch::tensor(target, torch::kLong);
    read.position = torch::tensor(position, torch::kInt);
    return read;
  }

 private:
  ballast::batch_sampler steps_;
  ballast::sample_batch batch_;  // of all ranks, of which this one reads its own
  ballast::rank_id rank_;
  std::uint32_t vocabulary_;
  std::uint64_t seed_;
};

}  // namespace trainer
