#include "../nsapi.h" /* all of base/util.h is there */
