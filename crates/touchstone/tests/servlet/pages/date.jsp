<%@ page contentType="text/plain; charset=utf-8" trimDirectiveWhitespaces="true" %>
<%! private int times; %>
page=<%= request.getServletPath() %> sum=${1 + 2}
