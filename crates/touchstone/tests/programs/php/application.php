<?php

declare(strict_types=1);

/** Routes requests to methods. */
final class Application
{
    /** Method and pattern of the path, and who answers. */
    private const ROUTES = [
        ['GET', '#^/$#', 'home'],
        ['GET', '#^/articles/(\d+)$#', 'article'],
        ['GET', '#^/variables(?:/.*)?$#', 'variables'],
        ['POST', '#^/login$#', 'login'],
        ['GET', '#^/account$#', 'account'],
        ['POST', '#^/logout$#', 'logout'],
        ['POST', '#^/upload$#', 'upload'],
        ['PUT', '#^/echo$#', 'echoBody'],
        ['POST', '#^/echo$#', 'echoBody'],
        ['GET', '#^/download/(\d+)$#', 'download'],
        ['GET', '#^/stream/(\d+)$#', 'stream'],
        ['GET', '#^/slow/(\d+)$#', 'slow'],
        ['GET', '#^/file/(\w+)$#', 'file'],
        ['GET', '#^/status/(\d+)$#', 'status'],
        ['GET', '#^/warning$#', 'warning'],
        ['GET', '#^/die$#', 'endProcess'],
        ['GET', '#^/pid$#', 'pid'],
        ['GET', '#^/cookies$#', 'cookies'],
    ];

    public function __construct(private string $directory)
    {
    }

    public function run(): void
    {
        $path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
        $method = $_SERVER['REQUEST_METHOD'] === 'HEAD' ? 'GET' : $_SERVER['REQUEST_METHOD'];
        foreach (self::ROUTES as [$wanted, $pattern, $name]) {
            if ($wanted === $method && preg_match($pattern, $path, $found)) {
                $this->$name(...array_slice($found, 1));
                return;
            }
        }
        http_response_code(404);
        $this->text("no route for $method $path\n");
    }

    private function home(): void
    {
        header('Content-Type: text/html; charset=utf-8');
        echo "<!DOCTYPE html><title>Home</title><h1>It works</h1>\n";
    }

    private function article(string $number): void
    {
        $this->json(['article' => (int) $number, 'page' => $_GET['page'] ?? null]);
    }

    private function variables(): void
    {
        $names = array_filter($_SERVER, fn ($name) => is_string($_SERVER[$name]), ARRAY_FILTER_USE_KEY);
        ksort($names);
        $this->json($names);
    }

    private function login(): void
    {
        session_save_path($this->directory);
        session_start();
        session_regenerate_id(true);
        $_SESSION['user'] = $_POST['user'] ?? '';
        $_SESSION['visits'] = 0;
        header('Location: /account', true, 303);
    }

    private function account(): void
    {
        session_save_path($this->directory);
        session_start();
        if (!isset($_SESSION['user'])) {
            http_response_code(403);
            $this->text("nobody\n");
            return;
        }
        $_SESSION['visits']++;
        $this->text("{$_SESSION['user']} {$_SESSION['visits']}\n");
    }

    private function logout(): void
    {
        session_save_path($this->directory);
        session_start();
        session_destroy();
        http_response_code(204);
    }

    /** A form with a file: its name, length and checksum. */
    private function upload(): void
    {
        $file = $_FILES['file'] ?? null;
        if ($file === null || $file['error'] !== UPLOAD_ERR_OK) {
            http_response_code(400);
            $this->json(['error' => $file['error'] ?? 'no file']);
            return;
        }
        $this->json([
            'name' => $file['name'],
            'length' => $file['size'],
            'checksum' => md5_file($file['tmp_name']),
            'note' => $_POST['note'] ?? null,
        ]);
    }

    /** Whatever the body is, without a form. */
    private function echoBody(): void
    {
        header('Content-Type: application/octet-stream');
        $body = fopen('php://input', 'rb');
        fpassthru($body);
    }

    /** So many bytes with their length said. */
    private function download(string $length): void
    {
        header('Content-Type: application/octet-stream');
        header('Content-Disposition: attachment; filename="download.bin"');
        header("Content-Length: $length");
        $this->send((int) $length);
    }

    /** So many bytes without it. */
    private function stream(string $length): void
    {
        header('Content-Type: application/octet-stream');
        $this->send((int) $length);
    }

    private function send(int $left): void
    {
        $piece = str_repeat('0123456789abcdef', 1024);
        while ($left > 0) {
            echo substr($piece, 0, $left);
            $left -= strlen($piece);
        }
    }

    private function slow(string $milliseconds): void
    {
        usleep((int) $milliseconds * 1000);
        $this->text("slept\n");
    }

    /** A file that the server is to send. */
    private function file(string $name): void
    {
        header('Content-Type: text/x-sent');
        header("X-Accel-Redirect: /$name.txt");
    }

    private function status(string $code): void
    {
        http_response_code((int) $code);
        $this->text("status $code\n");
    }

    private function warning(): void
    {
        error_log('a line for the operator');
        $this->text("warned\n");
    }

    private function endProcess(): void
    {
        posix_kill(getmypid(), 9);
    }

    private function pid(): void
    {
        $this->text(getmypid() . "\n");
    }

    private function cookies(): void
    {
        setcookie('first', '1');
        setcookie('second', '2');
        $this->text("two\n");
    }

    private function json(array $value): void
    {
        header('Content-Type: application/json');
        echo json_encode($value, JSON_UNESCAPED_SLASHES), "\n";
    }

    private function text(string $text): void
    {
        header('Content-Type: text/plain; charset=utf-8');
        echo $text;
    }
}
