#include "../nsapi.h" /* all of base/systhr.h is there */
