#include <ballast/core/quantities.hpp>
#include <ballast/partition/packing/first_fit_decreasing.hpp>
#include <ballast/partition/packing/pack_to_capacity.hpp>

#include <vector>

bool packs(std::vector<ballast::tokens> const& lengths)
{
  return ballast::pack_to_capacity(lengths, 8192, ballast::first_fit_decreasing{}).has_value();
}
