#include "../nsapi.h" /* all of base/net.h is there */
