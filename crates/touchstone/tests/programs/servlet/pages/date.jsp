<%@ page contentType="text/plain; charset=utf-8" trimDirectiveWhitespaces="true" session="false" %>
<%! private int times; %>
page=<%= request.getServletPath() %> sum=${1 + 2}
