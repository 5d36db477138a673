#include "../nsapi.h" /* all of frame/http.h is there */
