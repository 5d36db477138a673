<?php header('Content-Type: text/plain'); echo 'script ', $_SERVER['SCRIPT_NAME'], ' info ', $_SERVER['PATH_INFO'] ?? '-', ' file ', basename($_SERVER['SCRIPT_FILENAME']), "\n";
