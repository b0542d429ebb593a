// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_MULTIMODAL_SAMPLES_HPP
#define BALLAST_RUNTIME_MULTIMODAL_SAMPLES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// An image, an utterance or a stretch of text of a sample: its modality and how long it is as it
/// was read.
struct subsequence {
  std::uint32_t modality = 0;
  tokens length = 0;

  friend constexpr bool operator==(subsequence, subsequence) = default;
};

/// What a rank has read in a step: samples, and the subsequences of each in the order in which the
/// language model sees them.
///
///     multimodal_samples read;
///     read.start_sample();
///     read.add(image, 1024);  // 0, 1, ...: the encoders
///     read.add(text, 60);     // and after them what the language model reads itself
///
/// Ensures     clear() keeps the memory, so that a step no larger than one before allocates nothing
class multimodal_samples {
 public:
  /// The modality of the entry that begins each sample in entries().
  static constexpr std::uint32_t begins_sample = std::numeric_limits<std::uint32_t>::max();
  /// The group of a sample that belongs with no other.
  static constexpr std::int64_t alone = -1;

  void clear() noexcept
  {
    entries_.clear();
    samples_ = 0;
  }

  /// A sample without subsequences is one too. Samples of one group, such as the answers to one
  /// prompt, stay on one bag in phases that are told to keep them `together`, whoever has read them.
  ///
  /// Expects     group >= 0, or alone.
  void start_sample(std::int64_t group = alone)
  {
    BALLAST_EXPECTS(group >= alone, "a sample is of group ", group);
    entries_.push_back({begins_sample, group});
    ++samples_;
  }

  /// Adds to the sample that was started last. Whether modality and length are possible is for the
  /// plan to say, on every rank.
  void add(std::uint32_t modality, tokens length)
  {
    BALLAST_EXPECTS(samples_ >= 1, "a subsequence was added before a sample was started");
    BALLAST_EXPECTS(modality != begins_sample, "modality ", modality, " is reserved");
    entries_.push_back({modality, length});
  }

  /// Number of samples.
  [[nodiscard]] std::size_t size() const noexcept { return samples_; }

  /// An entry that begins a sample, with its group as length, then one for each of its
  /// subsequences, and so on.
  [[nodiscard]] std::span<subsequence const> entries() const noexcept
  {
    return detail::span_of(entries_);
  }

 private:
  std::vector<subsequence> entries_;
  std::size_t samples_ = 0;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_MULTIMODAL_SAMPLES_HPP
