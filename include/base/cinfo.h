#include "../nsapi.h" /* all of base/cinfo.h is there */
