#include "../nsapi.h" /* all of base/session.h is there */
