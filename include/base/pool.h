#include "../nsapi.h" /* all of base/pool.h is there */
