#include "../nsapi.h" /* all of base/shexp.h is there */
