#include "../nsapi.h" /* all of base/ereport.h is there */
