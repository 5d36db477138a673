#include "../nsapi.h" /* all of base/pblock.h is there */
