// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/text/excerpt.hpp>

#include <system_error>

namespace ballast::inline v0 {

/// The global batch of one training step, as the data loaders leave it: before balancing.
///
/// Sample i is the i-th in gathered order, all of rank 0's and then all of rank 1's, which is the
/// order that an all-gather of the ranks' lengths gives and that `sample_id` counts.
///
/// Shapes      lengths[n], source[n]; rows[n] or empty; n >= 0. A rank may have no sample.
/// Units       tokens; 0 is a valid length.
/// Ensures     (1) there are as many sources as lengths
///             (2) sources are in rank order
///             (3) lengths are in [0, longest_sample]; every function that fills a batch ensures it
struct sample_batch {
  std::vector<tokens> lengths = {};
  std::vector<rank_id> source = {};      ///< the GPU whose data loader read the sample
  std::vector<std::uint32_t> rows = {};  ///< which row of the trace it is; empty without a trace

  friend bool operator==(sample_batch const&, sample_batch const&) = default;
};

/// What some GPUs read in each step: every one `samples` images or videos of one size, and a text
/// with each. Written g{gpus}b{samples}i{pixels}f{frames}s{smoothness}.
struct data_code {
  std::uint32_t gpus = 1;
  std::uint32_t samples = 1;     ///< per GPU; 0 is a GPU that reads nothing
  std::uint32_t pixels = 256;    ///< a sample has the area of a square of this side
  std::uint32_t frames = 1;      ///< 1 is an image
  std::uint32_t smoothness = 0;  ///< 0: each frame is encoded by itself; else compressed in time

  friend bool operator==(data_code const&, data_code const&) = default;
};

/// How many tokens pixels, frames and texts become; the defaults are KnapFormer's.
///
/// Expects     pixels_per_token >= 1; frames_per_token >= 1; smallest_aspect <= largest_aspect;
///             0 <= shortest_text <= longest_text <= longest_sample.
struct data_code_options {
  std::uint32_t pixels_per_token = 16;       ///< along each side
  ratio frames_per_token = {17, 5};          ///< where frames are compressed in time
  std::uint32_t smallest_aspect = 960'000;   ///< factor on the tokens of an image, in millionths
  std::uint32_t largest_aspect = 1'040'000;  ///< both bounds can occur
  tokens shortest_text = 0;
  tokens longest_text = 392;
};

/// Reads codes separated by commas, for example `g16b4i256f1s0,g8b2i256f85s1`.
///
/// Errors      syntax or out_of_range with a byte offset: no code, a part that is missing or out of
///             order, a number above 2^32 - 1, a code for no GPU.
/// Complexity  O(bytes).
/// Source      K. Zhang et al., "KnapFormer: An Online Load Balancer for Efficient Diffusion
///             Transformers Training", arXiv 2508.06001, 2025, and its public simulator.
[[nodiscard]] inline result<std::vector<data_code>> parse_data_codes(std::string_view text)
{
  using number_of_code = std::uint32_t data_code::*;
  struct part {
    char letter;
    char const* meaning;
    number_of_code number;
  };
  static constexpr std::array<part, 5> parts = {{
      {'g', "the number of GPUs", &data_code::gpus},
      {'b', "the number of samples per GPU", &data_code::samples},
      {'i', "the side of the image in pixels", &data_code::pixels},
      {'f', "the number of frames", &data_code::frames},
      {'s', "0, or more for frames compressed in time", &data_code::smoothness},
  }};

  std::size_t at = 0;
  auto const refuse = [&at, text](error_code code, std::string const& reason) {
    return tl::unexpected(detail::text_error(
        code, text, at, reason + "; data codes look like g4b5i512f1s0,g8b2i256f85s1"));
  };

  std::vector<data_code> codes;
  while (true) {
    data_code& code = codes.emplace_back();
    for (part const& next : parts) {
      if (at == text.size() || text[at] != next.letter) {
        return refuse(
            error_code::syntax,
            std::string("expected '").append(1, next.letter).append("' and ") + next.meaning);
      }
      ++at;
      char const* const end = text.data() + text.size();
      auto const parsed = std::from_chars(text.data() + at, end, code.*next.number);
      if (parsed.ec == std::errc::invalid_argument) {
        return refuse(error_code::syntax, std::string("expected ") + next.meaning);
      }
      if (parsed.ec != std::errc{}) {
        return refuse(error_code::out_of_range, "this number does not fit 32 bits");
      }
      if (code.gpus == 0) { return refuse(error_code::out_of_range, "a code needs a GPU"); }
      at = static_cast<std::size_t>(parsed.ptr - text.data());
    }
    if (at == text.size()) { return codes; }
    if (text[at] != ',') { return refuse(error_code::syntax, "expected ',' or the end"); }
    ++at;
  }
}

namespace detail {

// Below 2^128, since it is at most a product of four 32-bit numbers.
[[nodiscard]] constexpr uint128 visual_tokens(data_code const& code,
                                              data_code_options const& options,
                                              std::uint32_t aspect) noexcept
{
  uint128 const side = code.pixels / options.pixels_per_token;
  uint128 frames = code.frames;
  if (code.smoothness != 0) {
    ratio const rate = options.frames_per_token;
    frames = frames * static_cast<std::uint64_t>(rate.denominator) /
             static_cast<std::uint64_t>(rate.numerator);
    if (frames == 0) { frames = 1; }
  }
  return side * side * frames * aspect / 1'000'000;
}

}  // namespace detail

/// Draws the batch of one step. The GPUs of the codes, in their order, repeat over the job.
///
/// In, out     random advances; out is replaced, but stays as it was where there is an error.
/// Expects     at least one code; gpus < 2^32; what the options expect.
/// Ensures     (1) a sample has side * side * time * aspect / 10^6 visual tokens, rounded down, and
///                 a text; side = floor(pixels / pixels_per_token), and time = frames, or
///                 max(1, floor(frames / frames_per_token)) where they are compressed
///             (2) aspect is uniform and drawn once per GPU and step, the text once per sample
///             (3) numbers are drawn GPU after GPU: its aspect, then its texts
///             (4) it allocates nothing where `out` has held such a batch before
/// Errors      out_of_range: gpus is no multiple of the codes' GPUs; a sample could be longer than
///             longest_sample (position is the code's index); there are 2^32 samples or more.
/// Complexity  O(codes + gpus + samples).
[[nodiscard]] inline result<void> draw_batch(sample_batch& out, std::span<data_code const> codes,
                                             std::size_t gpus, data_code_options const& options,
                                             random_source& random)
{
  BALLAST_EXPECTS(!codes.empty(), "there are no data codes to draw a batch from");
  BALLAST_EXPECTS(gpus < (std::uint64_t{1} << 32), "a batch was asked for over ", gpus,
                  " GPUs, and there can be fewer than 2^32");
  BALLAST_EXPECTS(options.pixels_per_token >= 1, "pixels_per_token is ", options.pixels_per_token,
                  ", and the least is 1");
  BALLAST_EXPECTS(options.frames_per_token >= (ratio{1, 1}), "frames_per_token is ",
                  options.frames_per_token.numerator, " / ", options.frames_per_token.denominator,
                  ", and the least is 1");
  BALLAST_EXPECTS(options.smallest_aspect <= options.largest_aspect, "aspects go from ",
                  options.smallest_aspect, " to ", options.largest_aspect, ", which is downwards");
  BALLAST_EXPECTS(options.shortest_text >= 0 && options.shortest_text <= options.longest_text,
                  "texts have ", options.shortest_text, " to ", options.longest_text,
                  " tokens, which are no lengths");
  BALLAST_EXPECTS(options.longest_text <= longest_sample, "texts have up to ", options.longest_text,
                  " tokens, and samples at most ", longest_sample);

  uint128 group_gpus = 0;
  uint128 group_samples = 0;
  auto const longest_visual = static_cast<uint128>(longest_sample - options.longest_text);
  for (std::size_t index = 0; index < codes.size(); ++index) {
    group_gpus += codes[index].gpus;
    group_samples += static_cast<uint128>(codes[index].gpus) * codes[index].samples;
    if (detail::visual_tokens(codes[index], options, options.largest_aspect) > longest_visual) {
      return fail(error_code::out_of_range, index, "data code ", index,
                  " can give samples of more than ", longest_sample,
                  " tokens; lower its pixels or frames");
    }
  }
  BALLAST_EXPECTS(group_gpus >= 1, "the data codes describe no GPUs");
  if (gpus == 0 || gpus % group_gpus != 0) {
    auto const group = std::to_string(static_cast<std::uint64_t>(group_gpus));
    return fail(error_code::out_of_range, 0, "the data codes describe ", group, " GPUs, and ", gpus,
                " is not a multiple of that; choose a multiple of ", group);
  }
  if (gpus / group_gpus * group_samples >> 32 != 0) {
    return fail(error_code::out_of_range, 0,
                "the data codes give 2^32 samples or more per step; lower their samples");
  }

  out.lengths.clear();
  out.source.clear();
  out.rows.clear();
  for (std::size_t gpu = 0; gpu < gpus;) {
    for (data_code const& code : codes) {
      for (std::size_t const end = gpu + code.gpus; gpu < end; ++gpu) {
        auto const aspect = static_cast<std::uint32_t>(
            random.between(options.smallest_aspect, options.largest_aspect));
        auto const visual = static_cast<tokens>(detail::visual_tokens(code, options, aspect));
        for (std::uint32_t sample = 0; sample < code.samples; ++sample) {
          out.lengths.push_back(visual +
                                random.between(options.shortest_text, options.longest_text));
        }
        out.source.resize(out.lengths.size(), to_id<rank_id>(gpu));
      }
    }
  }
  return {};
}

/// The same as a value.
[[nodiscard]] inline result<sample_batch> draw_batch(std::span<data_code const> codes,
                                                     std::size_t gpus,
                                                     data_code_options const& options,
                                                     random_source& random)
{
  sample_batch out;
  auto const drawn = draw_batch(out, codes, gpus, options, random);
  if (!drawn) { return tl::unexpected(drawn.error()); }
  return out;
}

/// What unmodified data loaders read in each training step: the situation before balancing.
///
/// The trace is shuffled, steps take consecutive samples from it, and each step's samples are dealt
/// to the GPUs in contiguous blocks. The last step of a pass takes what is left, and the next one
/// begins with the trace shuffled again: no sample is in a pass twice.
///
/// Expects     a trace with at least one length; 1 <= gpus and batch < 2^32. A batch may be larger
///             than the trace, which is a step then, or smaller than the number of GPUs.
/// Ensures     (1) the samples of the steps of a pass, ceil(trace / batch) of them, are a
///                 permutation of the trace: nothing is dropped, and nothing is there twice
///             (2) a step has `batch` samples, or all that are left of its pass where these are
///                 fewer; of n, GPU r has floor(n / gpus), one more if r < n mod gpus, and sources
///                 are non-decreasing
///             (3) equal arguments give equal steps on every machine
///             (4) out.rows says which row of the trace each sample is, so that a trainer knows
///                 what to read, and can look up more about the sample than its length
///             (5) next_into(out) allocates nothing where `out` has held a step as long
/// Complexity  next: O(batch), plus O(trace) for each new pass.
class batch_sampler {
 public:
  batch_sampler(std::vector<tokens> trace, std::size_t batch, std::size_t gpus, std::uint64_t seed)
      : trace_(std::move(trace)), batch_(batch), gpus_(gpus), at_(trace_.size()), random_(seed)
  {
    BALLAST_EXPECTS(trace_.size() < (std::uint64_t{1} << 32), "the trace has ", trace_.size(),
                    " samples, and there can be fewer than 2^32");
    order_.resize(trace_.size());
    std::iota(order_.begin(), order_.end(), std::uint32_t{0});
    BALLAST_EXPECTS(!trace_.empty(), "the trace has no samples");
    BALLAST_EXPECTS(gpus_ >= 1 && gpus_ < (std::uint64_t{1} << 32), "steps were asked for over ",
                    gpus_, " GPUs, which is not from 1 to 2^32 - 1");
    BALLAST_EXPECTS(batch_ < (std::uint64_t{1} << 32), "steps were asked for of ", batch_,
                    " samples, and there can be fewer than 2^32");
  }

  /// Steps that take the samples as they stand in the trace, pass after pass.
  [[nodiscard]] static batch_sampler in_order(std::vector<tokens> trace, std::size_t batch,
                                              std::size_t gpus)
  {
    batch_sampler sampler(std::move(trace), batch, gpus, 0);
    sampler.shuffles_ = false;
    return sampler;
  }

  /// The samples of the next step, in place of what `out` held.
  void next_into(sample_batch& out)
  {
    if (at_ == order_.size()) {
      if (shuffles_) { random_.shuffle(detail::mutable_span_of(order_)); }
      at_ = 0;
    }
    std::size_t const samples = std::min(batch_, order_.size() - at_);
    out.lengths.resize(samples);
    out.rows.resize(samples);
    for (std::size_t sample = 0; sample < samples; ++sample) {
      out.rows[sample] = order_[at_++];
      out.lengths[sample] = trace_[out.rows[sample]];
    }

    out.source.clear();
    for (std::size_t gpu = 0; gpu < gpus_; ++gpu) {
      std::size_t const own = samples / gpus_ + (gpu < samples % gpus_ ? 1 : 0);
      out.source.resize(out.source.size() + own, to_id<rank_id>(gpu));
    }
  }

  [[nodiscard]] sample_batch next()
  {
    sample_batch out;
    next_into(out);
    return out;
  }

 private:
  std::vector<tokens> trace_;
  std::vector<std::uint32_t> order_;  // rows as this pass reads them
  std::size_t batch_;
  std::size_t gpus_;
  std::size_t at_;
  random_source random_;
  bool shuffles_ = true;
};

}  // namespace ballast::inline v0
