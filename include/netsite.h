#include "nsapi.h" /* all of netsite.h is there */
