#include <ballast/runtime/detail/measured_calls.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using ballast::time_units;
using ballast::unchanged_factor;
using ballast::detail::measured_calls;
using ballast::detail::median_of;
using ballast::detail::state_reader;
using ballast::detail::state_writer;

double times_one(std::uint32_t factor)
{
  return static_cast<double>(factor) / unchanged_factor;
}

TEST(MeasuredCalls, ExplainTimesByRanksAndShapes)
{
  ballast::random_source random(5);
  std::array<double, 6> const ranks{1, 1, 1.3, 1, 0.9, 1};
  std::array<double, 10> const shapes{1, 1, 1, 2.5, 1, 1, 1, 0.7, 1, 1};
  measured_calls calls(std::vector<std::uint32_t>(6, 0));
  for (int each = 0; each < 600; ++each) {
    std::size_t const rank = random.below(6);
    double whole = 0;
    std::vector<std::uint32_t> drawn;
    for (int part = 0; part < 3; ++part) {
      drawn.push_back(static_cast<std::uint32_t>(random.below(10)));
      whole += shapes[drawn.back()] * 1000 * (drawn.back() + 1);
    }
    bool const disturbed = random.below(10) == 0;
    calls.begin_call(rank, static_cast<time_units>(whole * ranks[rank] * (disturbed ? 5 : 1)));
    for (std::uint32_t const shape : drawn) { calls.add_part(shape, 1000 * (shape + 1)); }
    calls.end_call();
  }
  calls.fit(4);
  for (std::size_t rank = 0; rank < 6; ++rank) {
    EXPECT_NEAR(times_one(calls.rank_factors()[rank]), ranks[rank], 0.01) << rank;
  }
  for (std::size_t shape = 0; shape < 10; ++shape) {
    EXPECT_NEAR(times_one(calls.shape_factors()[shape]), shapes[shape], 0.05) << shape;
  }
}

TEST(MeasuredCalls, LearnNothingFromTooFewCalls)  // Ensures (2)
{
  measured_calls calls(std::vector<std::uint32_t>{0});
  auto const call = [&](time_units of_five, time_units of_six) {
    calls.begin_call(0, 2 * of_five + 4 * of_six);
    calls.add_part(5, of_five);
    calls.add_part(6, of_six);
    calls.end_call();
  };
  for (int each = 0; each < 3; ++each) { call(1000, 0); }
  calls.fit(4);
  EXPECT_EQ(calls.shape_factors()[5], unchanged_factor);
  for (int each = 0; each < 20; ++each) { call(1000, 1); }  // shape 6 is a thousandth of its calls
  calls.fit(4);
  EXPECT_NEAR(times_one(calls.shape_factors()[5]), 2, 0.01);
  EXPECT_EQ(calls.shape_factors()[6], unchanged_factor);
}

TEST(MeasuredCalls, AreThoseOfTwoIntervals)
{
  measured_calls calls(std::vector<std::uint32_t>{0});
  auto const measure = [&](time_units time) {
    for (int each = 0; each < 10; ++each) {
      calls.begin_call(0, time);
      calls.add_part(9, 1000);
      calls.end_call();
    }
    calls.fit(4);
    calls.next_interval();
    return times_one(calls.shape_factors()[9]);
  };
  EXPECT_NEAR(measure(1000), 1, 0.001);
  EXPECT_NEAR(measure(3000), 1, 0.001);  // half of the calls: the lower median
  EXPECT_NEAR(measure(3000), 3, 0.001);  // the first interval is given up
}

TEST(MeasuredCalls, AreWrittenAndRead)
{
  measured_calls calls(std::vector<std::uint32_t>{0, 1});
  calls.begin_call(1, 77);
  calls.add_part(3, 5);
  calls.add_part(4, 6);
  calls.add_part(3, 7);
  calls.end_call();
  calls.begin_call(0, 7);
  calls.end_call();  // of no samples
  calls.next_interval();
  state_writer out("calls");
  calls.write(out);
  std::string const text = out.text();
  EXPECT_NE(text.find("old 1 2\ncalls 1 1 77 18\nparts 2 0 867 12 0 868 6\n"), std::string::npos);
  measured_calls same(std::vector<std::uint32_t>{0, 1});
  state_reader in(text);
  in.expect("calls");
  same.read(in);
  ASSERT_TRUE(in.finish());
  state_writer again("calls");
  same.write(again);
  EXPECT_EQ(again.text(), text);

  // A part of the present interval cannot be one of a call of the last one.
  for (std::string const wrong : {"old 1 1\n", "old 0 1\n"}) {
    std::string changed = text;
    changed.replace(changed.find("old 1 2\n"), 8, wrong);
    state_reader of_wrong(changed);
    of_wrong.expect("calls");
    same.read(of_wrong);
    EXPECT_FALSE(of_wrong.finish()) << wrong;
  }
}

TEST(MeasuredCalls, TakeTheLowerMedian)
{
  std::vector<std::uint32_t> values{5, 1, 9, 7};
  EXPECT_EQ(median_of(values), 5U);
  values.push_back(6);
  EXPECT_EQ(median_of(values), 6U);
  values.clear();
  EXPECT_EQ(median_of(values), 0U);
}

TEST(MeasuredCalls, KeepRatiosFromASixteenthToSixteen)
{
  EXPECT_EQ(measured_calls::ratio_of(3, 2), unchanged_factor * 3 / 2);
  EXPECT_EQ(measured_calls::ratio_of(1, 0), 16 * unchanged_factor / 16);
  EXPECT_EQ(measured_calls::ratio_of(0, 5), unchanged_factor / 16);
  EXPECT_EQ(measured_calls::ratio_of(500, 5), unchanged_factor * 16);
}

}  // namespace
