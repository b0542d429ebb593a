// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../support/hand_moved_clock.hpp"
#include "../../support/test.hpp"

#include <ballast/runtime/data/data_setup.hpp>

#include <atomic>
#include <cstring>
#include <stdexcept>

namespace ballast_test {

/// Samples of drawn lengths, whose bytes say which they are. Some cannot be decoded; some calls,
/// drawn by their number, throw or take long.
struct faulty_source {
  std::set<std::uint64_t> bad = {};
  std::uint64_t seed = 0;
  std::uint32_t throws_per_mille = 0;
  std::uint32_t slow_per_mille = 0;
  std::chrono::milliseconds slow = {};
  std::chrono::microseconds usual = {};
  std::shared_ptr<std::atomic<std::uint64_t>> calls =
      std::make_shared<std::atomic<std::uint64_t>>(0);

  [[nodiscard]] static std::vector<ballast::tokens> lengths_of(std::uint64_t sample)
  {
    ballast::random_source random(sample + 77);
    return {random.between(1, 500)};
  }
  [[nodiscard]] static std::vector<std::byte> bytes_of(std::uint64_t sample)
  {
    std::vector<std::byte> bytes(static_cast<std::size_t>(lengths_of(sample)[0]) * 8);
    for (std::size_t at = 0; at < bytes.size(); at += 8) {
      std::uint64_t const word = sample * 1000 + at;
      std::memcpy(&bytes[at], &word, sizeof(word));
    }
    return bytes;
  }

  [[nodiscard]] ballast::result<ballast::loaded_sample> load(std::uint64_t sample) const
  {
    ballast::random_source random(seed ^ (*calls)++ * 0x9e3779b97f4a7c15U);
    auto const drawn = random.below(1000);
    if (drawn < throws_per_mille) { throw std::runtime_error("the disk is gone"); }
    if (usual.count() > 0) { std::this_thread::sleep_for(usual); }
    if (drawn >= 1000 - slow_per_mille) { hand_moved_clock::sleep(slow); }
    if (bad.contains(sample)) {
      return ballast::fail(ballast::error_code::bad_row, 0, "it is broken");
    }
    return ballast::loaded_sample{lengths_of(sample), bytes_of(sample)};
  }
};

/// One whose samples are frames and a text.
struct video_source : faulty_source {
  struct shape {
    std::size_t frames = 0;
    std::uint64_t frame = 0;  // bytes
    std::uint64_t text = 0;
  };
  [[nodiscard]] static shape shape_of(std::uint64_t sample)
  {
    std::uint64_t const bytes = bytes_of(sample).size();
    std::size_t const frames = sample % 6;
    std::uint64_t const frame = bytes / (frames + 1);
    return {frames, frame, bytes - frames * frame};
  }

  [[nodiscard]] ballast::result<ballast::loaded_sample> load(std::uint64_t sample) const
  {
    auto loaded = faulty_source::load(sample);
    if (!loaded) { return loaded; }
    auto const [frames, frame, text] = shape_of(sample);
    loaded->parts.assign(frames, {0, 1, frame});
    loaded->parts.push_back({0, 2, text});
    return loaded;
  }
};

/// One that also knows lengths before.
struct measured_source : faulty_source {
  [[nodiscard]] static std::vector<ballast::tokens> lengths(std::uint64_t sample)
  {
    return lengths_of(sample);
  }
};

}  // namespace ballast_test
