<?php
// The front controller of a small application, as real ones are made: it routes by REQUEST_URI, keeps a session, takes
// uploads, and gives downloads. The tests of PHP are made of its answers.

declare(strict_types=1);

require __DIR__ . '/../application.php';

(new Application(dirname(__DIR__) . '/var'))->run();
