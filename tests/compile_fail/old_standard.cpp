// EXPECT: ballast needs C\+\+20: compile with -std=c\+\+20
// STANDARD: c++17
#include <ballast/ballast.hpp>

int main() {}
