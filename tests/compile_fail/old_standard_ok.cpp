#include <ballast/ballast.hpp>

int main() {}
