// The switch of DFLOP's adaptive correction: H. An et al., "DFLOP: A Data-driven Framework for
// Multimodal LLM Training Pipeline Optimization", arXiv 2603.25120, 2026. 1, 3 and 5 % of the
// shapes are late by 0 to 100 % of the longest stage, and tracking costs 4 % of a step. Where the
// correction leaves its switch, beside whether a corrected step with tracking is really shorter,
// and beside the paper's.

#include "../runtime/late_shapes.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/runtime/adaptive_correction.hpp>
#include <ballast/runtime/microbatch_scheduler.hpp>

namespace {

using ballast::adaptive_correction;
using ballast_test::late_cluster;

// The mean step of real times, of plans that are corrected by these factors, or of uncorrected
// ones.
double mean_step(late_cluster const& cluster, std::vector<std::uint32_t> const& factors,
                 bool tracked)
{
  constexpr std::uint64_t steps = 12;
  auto planner = late_cluster::make_scheduler();
  ballast::scheduled_step<2> step;
  double sum = 0;
  for (std::uint64_t number = 0; number < steps; ++number) {
    ballast::or_throw(planner(step, late_cluster::sizes_of(9000 + number), 1, number, factors));
    sum += static_cast<double>(cluster.run(step, tracked).step_time);
  }
  return sum / steps;
}

TEST(DflopCorrection, IsOnWhereItPays)
{
  constexpr std::uint32_t interval = 8;
  std::printf("late shapes  by    gain of a step   net   switch   paper\n");
  std::array<std::uint32_t, 3> const percents{1, 3, 5};
  std::array<std::int64_t, 5> const lateness{100, 75, 50, 25, 0};
  for (std::uint32_t const percent :
       std::span(percents).first(static_cast<std::size_t>(ballast_test::trials_of(3)))) {
    for (std::int64_t const late_by :
         std::span(lateness).first(static_cast<std::size_t>(ballast_test::trials_of(5)))) {
      SCOPED_TRACE(testing::Message() << percent << " % of shapes late by " << late_by << " %");
      late_cluster cluster(percent, late_by);
      cluster.noise_percent = 2;
      adaptive_correction correction(late_cluster::modules(), {.interval = interval});
      std::vector<std::uint32_t> learnt;
      cluster.train(correction, 0, 2 * interval + 1, [&](auto const&, auto const&) {
        if (!correction.factors().empty()) {
          learnt.assign(correction.factors().begin(), correction.factors().end());
        }
      });
      ASSERT_FALSE(learnt.empty());
      bool const on = correction.mode() == ballast::adaptive_correction::switch_state::on;

      // Apart from B: real steps of other batches, with correction and tracking and without.
      double const without = mean_step(cluster, {}, false);
      double const with = mean_step(cluster, learnt, true);
      double const net = without / with - 1;
      bool const in_paper = percent == 5 ? late_by > 0 : percent == 3 ? late_by > 25 : late_by > 50;
      std::printf("%8u %% %4d %% %11.2f %% %9.2f %%   %-6s   %s\n", percent,
                  static_cast<int>(late_by),
                  100.0 * static_cast<double>(correction.gain()) / without, 100 * net,
                  on ? "on" : "off", in_paper ? "on" : "off");
      // What is within 1 % depends on the batches.
      if (std::abs(net) > 0.01) { EXPECT_EQ(on, net > 0); }
    }
  }
}

}  // namespace
