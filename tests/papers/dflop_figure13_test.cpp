// Figure 13 of H. An et al., "DFLOP: A Data-driven Framework for Multimodal LLM Training Pipeline
// Optimization", arXiv 2603.25120, 2026: how much less GPUs are idle when samples are balanced over
// microbatches and microbatches are put in order. Here in simulation, with times from FLOP, on as
// many real samples of one image as of several images and of a video.

#include "on_page.hpp"

#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/latency_fit.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/module_times.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_policies.hpp>
#include <ballast/pipeline/order_search.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/workload/length_trace.hpp>

namespace {

using namespace ballast;

constexpr std::size_t replicas = 4;
constexpr std::size_t encoder_stages = 3;
constexpr std::size_t llm_stages = 5;
constexpr std::size_t simulated_steps = 3;

struct sample {
  tokens text;
  tokens visual;
};

// The times of one sample on the whole encoder and on the whole LLM. The encoder sees tiles of 1024
// patches each for itself, of which the LLM reads a quarter.
class model {
 public:
  std::array<stage_time, 2> operator()(sample const& each) const
  {
    tokens const tiles = (each.visual + 255) / 256;
    return {stage_time{tiles * tile_.forward, tiles * tile_.backward},
            llm_(each.text + each.visual)};
  }

  // What a stage of each is to be busy with.
  [[nodiscard]] ballast::cost_vector<2> of_stages(sample const& each) const
  {
    auto const [encoder, llm] = (*this)(each);
    return {(encoder.forward + encoder.backward) / static_cast<tokens>(encoder_stages),
            (llm.forward + llm.backward) / static_cast<tokens>(llm_stages)};
  }

 private:
  [[nodiscard]] static ballast::pass_costs price(char const* spec)
  {
    ballast::gamma_fit const gpus{.seconds_per_flop = 1e-15, .gamma = 1};
    return ballast::price_passes(
               ballast::parse_cost_spec(spec).value().forward, {},
               [&](ballast::flop_polynomial flops) { return ballast::latency_cost(gpus, flops); })
        .value();
  }

  stage_time tile_ = price("transformer:d=3200,layers=45")(1024);
  ballast::pass_costs llm_ = price(
      "transformer:d=5120,layers=64,heads=40,kv_heads=8,head_dim=128,ffn=27648,gated=1,causal=1");
};

struct setting {
  std::size_t microbatches;
  double floor;  // of the share by which GPUs are less idle

  friend std::ostream& operator<<(std::ostream& out, setting const& each)
  {
    return out << each.microbatches << " microbatches";
  }
};

class DflopFigure13 : public testing::TestWithParam<setting> {
 protected:
  void SetUp() override
  {
    char const* const data = std::getenv("BALLAST_DATA");
    if (data == nullptr) { GTEST_SKIP() << "BALLAST_DATA names no folder of real length traces"; }
    constexpr std::size_t of_each_kind = 1400;
    for (auto const& [file, text, visual] :
         {std::array{"coco_val2017_images.csv", "caption_tokens_sum", "visual_tokens_qwen2vl"},
          std::array{"interleaved_docs.csv", "text_tokens", "visual_tokens_qwen2vl"},
          std::array{"nextqa_video.csv", "text_tokens", "video_tokens_qwen2vl"}}) {
      constexpr tokens longest = 16'384;
      std::string const path = std::string(data).append("/").append(file);
      auto const texts = ballast::read_file(path, ballast::read_length_trace, text).value();
      auto const visuals = ballast::read_file(path, ballast::read_length_trace, visual).value();
      std::vector<sample> kind;
      for (std::size_t i = 0; i < texts.size(); ++i) {
        tokens const seen = std::min(visuals[i], longest);
        if (seen > 0) { kind.push_back({std::min(texts[i], longest - seen), seen}); }
      }
      random_.shuffle(std::span(kind));
      ASSERT_GE(kind.size(), of_each_kind);
      pool_.insert(pool_.end(), kind.begin(), kind.begin() + of_each_kind);
    }
  }

  // Replica after replica.
  using microbatches = std::vector<std::vector<sample_id>>;

  [[nodiscard]] microbatches spread(std::span<sample const> step, std::size_t count) const
  {
    microbatches all;
    auto const costs_of = [&](sample const& each) { return times_of_.of_stages(each); };
    auto const plan =
        ballast::partition(step, ballast::one_gpu_bags(replicas), costs_of, ballast::no_length{})
            .value();
    for (auto const of_replica : plan.samples) {
      auto const cost_of = [&](sample_id id) { return costs_of(step[to_index(id)]); };
      auto const filled = ballast::partition(of_replica, ballast::one_gpu_bags(count), cost_of,
                                             ballast::no_length{})
                              .value();
      for (auto const places : filled.samples) {
        auto& next = all.emplace_back();
        for (sample_id const place : places) { next.push_back(of_replica[to_index(place)]); }
      }
    }
    return all;
  }

  // The GPU time in which nothing is computed while all replicas wait for the slowest.
  template <class Policy>
  [[nodiscard]] double idle(ballast::compiled_schedule const& schedule, microbatches const& all,
                            std::span<sample const> step, Policy const& policy) const
  {
    std::vector<std::vector<std::uint32_t>> const layers = {{15, 15, 15}, {13, 13, 13, 13, 12}};
    double busy = 0;
    ballast::time_units slowest = 0;
    for (std::span left(all); !left.empty(); left = left.subspan(schedule.microbatches())) {
      auto const whole =
          ballast::sum_over_samples(left.first(schedule.microbatches()), step, times_of_).value();
      auto const times = ballast::split_over_stages(whole, layers);
      slowest =
          std::max(slowest, ballast::order_microbatches(schedule, times, policy).value().makespan);
      for (stage_time const& each : whole.rows) {
        busy += static_cast<double>(each.forward + each.backward);
      }
    }
    return static_cast<double>(slowest) * (encoder_stages + llm_stages) * replicas - busy;
  }

  ballast::random_source random_{13};
  std::vector<sample> pool_;
  model times_of_;
};

TEST_P(DflopFigure13, ComesOutInSimulation)
{
  constexpr std::size_t per_microbatch = 4;
  std::size_t const count = GetParam().microbatches;
  auto const stages = ballast::joined_stages(
                          {.encoders = {{encoder_stages}}, .llm = {llm_stages}, .generators = {}})
                          .value();
  auto const schedule =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, count).value();
  ballast::local_search const search{.inner = ballast::insertion{}, .evaluations = 1'000};
  double random = 0;
  double ordered = 0;
  double even = 0;
  double both = 0;
  for (std::size_t number = 0; number < simulated_steps; ++number) {
    random_.shuffle(std::span(pool_));
    auto const step = std::span(pool_).first(replicas * count * per_microbatch);
    microbatches as_read(replicas * count);
    for (std::size_t i = 0; i < step.size(); ++i) {
      as_read[i / per_microbatch].push_back(ballast::to_id<sample_id>(i));
    }
    auto const balanced = spread(step, count);
    random += idle(schedule, as_read, step, ballast::given_order{});
    ordered += idle(schedule, as_read, step, search);
    even += idle(schedule, balanced, step, ballast::given_order{});
    both += idle(schedule, balanced, step, search);
  }
  double const less = 1 - both / random;
  std::printf(
      "idle time, %2zu microbatches: %.1f %% less (paper: 82 to 84 %%); "
      "ordered only %.1f %%, balanced only %.1f %%\n",
      count, 100 * less, 100 * (1 - ordered / random), 100 * (1 - even / random));
  EXPECT_GE(less, GetParam().floor);
  ballast_test::expect_on_page(ballast_test::figures({100 * less}) + " % (" +
                               std::to_string(count) + (count == 16 ? " microbatches" : ")"));
  EXPECT_LT(both, even);
  EXPECT_LT(even, ordered);
  EXPECT_LT(ordered, random);
}

INSTANTIATE_TEST_SUITE_P(Steps, DflopFigure13,
                         testing::Values(setting{16, 0.72}, setting{32, 0.80}));

}  // namespace
