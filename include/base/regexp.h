#include "../nsapi.h" /* all of base/regexp.h is there */
