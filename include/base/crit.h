#include "../nsapi.h" /* all of base/crit.h is there */
