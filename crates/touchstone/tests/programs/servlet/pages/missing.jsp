<%@ page isErrorPage="true" contentType="text/plain" trimDirectiveWhitespaces="true" %>
nothing at ${pageContext.errorData.requestURI}
