// EXPECT: length_distribution
#include <ballast/core/quantities.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

struct fixed {
  ballast::tokens length = 7;
};

int main()
{
  ballast::clamped_lengths<fixed> const lengths{fixed{}, 1, 9};
  return lengths.shortest == 1 ? 0 : 1;
}
