#include "lithe/cli/command.h"

int main(int argc, char** argv) { return lithe::run_program(argc, argv); }
