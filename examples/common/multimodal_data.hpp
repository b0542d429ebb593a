// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/orchestrated_step.hpp>
#include <ballast/text/csv.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/workload/length_trace.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

#include <stdexcept>

/// Samples of images, speech and text, read or drawn.
namespace multimodal_data {

using namespace ballast;

enum modality : std::uint32_t { image, audio, text };

using sample = std::vector<multimodal_samples::subsequence>;

/// Requests with images, of which some have none, and utterances with what was said.
struct source {
  std::vector<sample> requests;
  std::vector<sample> utterances;
};

/// A trace keeps the order of its source, so that neighbours are alike.
inline source shuffled(source all)
{
  random_source random(1);
  random.shuffle(std::span(all.requests));
  random.shuffle(std::span(all.utterances));
  return all;
}

/// From columns text_tokens and image_tokens_each (`640;1280`) of one file, audio_tokens_25hz and
/// text_tokens of the other.
inline source read(std::string const& images, std::string const& speech)
{
  auto const texts = read_file(images, read_length_trace, "text_tokens").value();
  std::string const file = read_file(images).value();
  csv_reader rows(file);
  auto const header = rows.next().value().fields;
  auto const column = static_cast<std::size_t>(
      std::find(header.begin(), header.end(), "image_tokens_each") - header.begin());
  source all;
  for (tokens const length : texts) {
    auto const fields = rows.next().value().fields;
    if (column >= fields.size()) { throw std::runtime_error(images + ": no image_tokens_each"); }
    sample request;
    for (std::string_view left = fields[column]; !left.empty();) {
      std::size_t const end = std::min(left.find(';'), left.size());
      request.push_back({image, std::stoll(std::string(left.substr(0, end)))});
      left.remove_prefix(std::min(end + 1, left.size()));
    }
    request.push_back({text, length});
    all.requests.push_back(std::move(request));
  }
  auto const spoken = read_file(speech, read_length_trace, "audio_tokens_25hz").value();
  auto const said = read_file(speech, read_length_trace, "text_tokens").value();
  for (std::size_t each = 0; each < spoken.size(); ++each) {
    all.utterances.push_back({{audio, spoken[each]}, {text, said[each]}});
  }
  return shuffled(std::move(all));
}

inline source draw(std::size_t count)
{
  random_source random(2);
  clamped_lengths const pixels{lognormal_lengths{.median = 600, .sigma = 0.8}, 4, 1280};
  clamped_lengths const seconds{lognormal_lengths{.median = 300, .sigma = 0.6}, 25, 1500};
  clamped_lengths const words{lognormal_lengths{.median = 100, .sigma = 1.2}, 1, 4096};
  source all;
  for (std::size_t each = 0; each < count; ++each) {
    sample request;
    std::size_t const images = random.below(5) < 2 ? 0 : 1 + random.below(random.below(8) + 1);
    for (std::size_t next = 0; next < images; ++next) {
      request.push_back({image, pixels(random)});
    }
    request.push_back({text, words(random)});
    all.requests.push_back(std::move(request));
    all.utterances.push_back({{audio, seconds(random)}, {text, words(random) / 4 + 1}});
  }
  return all;
}

/// What each rank reads in a step: requests and utterances in turn, some of them about one another.
/// One rank in eight reads a data set of speech alone, and has not a single image.
inline std::vector<multimodal_samples> deal(source const& all, std::size_t ranks,
                                            std::size_t of_rank, std::size_t step, tokens scale = 1)
{
  std::size_t next = step * ranks * of_rank;
  if (next + ranks * of_rank > std::min(all.requests.size(), all.utterances.size())) {
    throw std::runtime_error("the traces have too few rows");
  }
  std::vector<multimodal_samples> read(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t each = 0; each < of_rank; ++each, ++next) {
      read[rank].start_sample();
      auto const add = [&](sample const& whole) {
        for (auto const& [modality, length] : whole) {
          read[rank].add(modality, (length + scale - 1) / scale);
        }
      };
      bool const spoken = rank % 8 == 7 || each % 4 == 1;
      if (spoken || each % 4 == 3) { add(all.utterances[next]); }
      if (!spoken) { add(all.requests[next]); }
    }
  }
  return read;
}

}  // namespace multimodal_data
