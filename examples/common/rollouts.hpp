// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/orchestrated_step.hpp>
#include <ballast/text/csv.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/workload/length_trace.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

#include <stdexcept>

/// Answers of a policy to questions, about videos or in text: their lengths, read or drawn.
namespace rollouts {

using namespace ballast;

/// One answer: the frames of its video, in patches of which four become a token, and its text.
struct rollout {
  std::int64_t question = 0;
  std::vector<tokens> frames;
  tokens text = 0;

  [[nodiscard]] tokens length() const
  {
    return std::accumulate(frames.begin(), frames.end(), text,
                           [](tokens sum, tokens frame) { return sum + (frame + 3) / 4; });
  }
};

struct source {
  bool has_videos = true;
  std::vector<std::vector<rollout>> steps;
};

/// Of each video two answers, of 20 to 400 tokens; one token in 128 is computed.
inline source of_videos(std::span<std::pair<tokens, tokens> const> videos_and_questions,
                        std::size_t steps, std::size_t answers)
{
  random_source random(7);
  source all;
  std::int64_t question = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    auto& drawn = all.steps.emplace_back();
    while (drawn.size() < answers) {
      auto const [video, text] =
          videos_and_questions[static_cast<std::size_t>(question) % videos_and_questions.size()];
      tokens const frame = 4 * random.between(4, 24);  // videos differ in the size of their frames
      for (int answer = 0; answer < 2; ++answer) {
        rollout& one = drawn.emplace_back();
        one.question = question;
        one.text = 1 + (text + random.between(20, 400)) / 128;
        for (tokens left = video / 32; left > 0; left -= frame) {
          one.frames.push_back(std::min(frame, left));
        }
      }
      ++question;
    }
  }
  return all;
}

inline source draw(std::size_t steps, std::size_t answers)
{
  random_source random(7);
  clamped_lengths const videos{lognormal_lengths{10'000, 0.7}, 1'000, 67'000};
  std::vector<std::pair<tokens, tokens>> drawn(steps * answers);
  for (auto& [video, text] : drawn) { video = videos(random), text = random.between(10, 50); }
  return of_videos(drawn, steps, answers);
}

/// Shuffled: each video once, or whole groups of answers, of which one token in 16 is computed.
inline source read(std::string const& file, std::size_t steps, std::size_t answers)
{
  std::string const csv = read_file(file).value();
  csv_reader rows(csv);
  auto const names = rows.next().value().fields;
  auto const column = [&](std::string_view name) {
    return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  };
  std::size_t const video = column("video_id");
  bool const has_videos = video < names.size();
  if (!has_videos && column("prompt_tokens") == names.size()) {
    throw std::runtime_error(file +
                             ": there is neither a column video_id, beside "
                             "video_tokens_qwen2vl and text_tokens, nor prompt_tokens, beside "
                             "response_tokens; name a file that has one of them");
  }
  auto const first =
      read_file(file, read_length_trace, has_videos ? "video_tokens_qwen2vl" : "prompt_tokens");
  auto const second =
      read_file(file, read_length_trace, has_videos ? "text_tokens" : "response_tokens");
  std::vector<std::vector<std::pair<tokens, tokens>>> groups;  // of one video or question
  std::string last;
  for (std::size_t row = 0; row < first.value().size(); ++row) {
    auto const fields = rows.next().value().fields;
    std::string const name = has_videos ? std::string(fields[video])
                                        : std::string(fields[0]) + "/" + std::string(fields[1]);
    if (name != last) { groups.emplace_back(); }
    last = name;
    groups.back().push_back({first.value()[row], second.value()[row]});
  }
  random_source random(7);
  random.shuffle(std::span(groups));
  if (has_videos) {
    std::vector<std::pair<tokens, tokens>> once;
    for (auto const& group : groups) { once.push_back(group.front()); }
    return of_videos(once, steps, answers);
  }
  source all{.has_videos = false, .steps = {}};
  std::size_t next = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    auto& drawn = all.steps.emplace_back();
    for (; drawn.size() < answers; ++next) {
      for (auto const& [prompt, response] : groups[next % groups.size()]) {
        drawn.push_back({static_cast<std::int64_t>(next), {}, 1 + (prompt + response) / 16});
      }
    }
  }
  return all;
}

}  // namespace rollouts
