// EXPECT: pad whole samples while others
#include <ballast/partition/attention_padded_batches.hpp>
#include <ballast/partition/best_of.hpp>
#include <ballast/partition/padded_batches.hpp>

int main()
{
  auto const policy =
      ballast::best_of{ballast::padded_batches{}, ballast::attention_padded_batches{}};
  return policy.restricts() ? 0 : 1;
}
