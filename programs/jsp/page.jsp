<%@ page contentType="text/html; charset=iso-8859-1" session="false" trimDirectiveWhitespaces="true" %>
<jsp:useBean id="today" class="spice.Today" scope="page" />
<!DOCTYPE html>
<html lang="en"><head><title>SPICE</title></head><body>
<p>Today is <jsp:getProperty name="today" property="date" /></p>
