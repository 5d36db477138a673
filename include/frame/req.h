#include "../nsapi.h" /* all of frame/req.h is there */
