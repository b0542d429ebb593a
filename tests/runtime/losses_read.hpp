// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast_test {

/// A sample of which every `each`-th token has a loss; 0: none.
struct masked {
  std::int32_t length;
  std::int32_t each;

  [[nodiscard]] bool has_loss(ballast::tokens token) const
  {
    return each != 0 && token % each == 0;
  }
  [[nodiscard]] static ballast::tokens tokens_of(masked const& sample) { return sample.length; }
  [[nodiscard]] static ballast::tokens loss_tokens_of(masked const& sample)
  {
    ballast::tokens count = 0;
    for (ballast::tokens token = 0; token < sample.length; ++token) {
      if (sample.has_loss(token)) { ++count; }
    }
    return count;
  }
};

/// Losses of which some count, added up one after the other.
struct loss_sum {
  double losses = 0;
  double tokens = 0;

  void add(double loss, std::uint8_t counts)
  {
    losses += counts * loss;
    tokens += counts;
  }
  void add(std::vector<double> const& each, std::vector<std::uint8_t> const& counts,
           std::size_t first, std::size_t count)
  {
    for (std::size_t row = first; row < first + count; ++row) { add(each[row], counts[row]); }
  }
  [[nodiscard]] double mean() const { return tokens == 0 ? 0 : losses / tokens; }
};

/// What a rank has read, and the loss that each token would have.
struct losses_read {
  std::vector<masked> samples;
  std::vector<double> losses;
  std::vector<std::uint8_t> has_loss;

  void add(losses_read const& more)
  {
    samples.insert(samples.end(), more.samples.begin(), more.samples.end());
    losses.insert(losses.end(), more.losses.begin(), more.losses.end());
    has_loss.insert(has_loss.end(), more.has_loss.begin(), more.has_loss.end());
  }
};

/// What each GPU reads: up to three samples, of which all tokens have a loss, or some, or none.
inline std::vector<losses_read> draw_losses(ballast::random_source& random, std::size_t gpus,
                                            bool all_have_one)
{
  std::vector<losses_read> all(gpus);
  for (losses_read& read : all) {
    read.samples.resize(random.below(4));
    for (masked& sample : read.samples) {
      sample.length = static_cast<std::int32_t>(random.between(4, 40));
      sample.each = all_have_one ? 1 : static_cast<std::int32_t>(random.between(0, 5));
      for (ballast::tokens token = 0; token < sample.length; ++token) {
        read.losses.push_back(static_cast<double>(random.between(1, 9)));
        read.has_loss.push_back(sample.has_loss(token) ? 1 : 0);
      }
    }
  }
  return all;
}

/// What a process of `each` GPUs reads for them.
inline losses_read read_by(std::size_t process, std::uint32_t each,
                           std::vector<losses_read> const& all)
{
  losses_read own;
  for (std::size_t gpu = process * each; gpu < (process + 1) * each; ++gpu) { own.add(all[gpu]); }
  return own;
}

/// The mean over all tokens that have a loss, from what was read.
inline double mean_loss(std::vector<losses_read> const& all)
{
  loss_sum whole;
  for (losses_read const& read : all) {
    whole.add(read.losses, read.has_loss, 0, read.losses.size());
  }
  return whole.mean();
}

}  // namespace ballast_test
