<?php
use PHPUnit\Framework\TestCase;

class EndsTest extends TestCase
{
    public static function tearDownAfterClass(): void
    {
        if (way('teardown')) {
            throw new RuntimeException('no teardown');
        }
    }

    public function testBefore(): void
    {
        $this->assertTrue(true);
    }

    public function testEnds(): void
    {
        $this->assertTrue(true);
        way('stop') && touch(getenv('STOP_FILE'));
        way('kill') && posix_kill(getmypid(), 9);
        way('exit0') && exit(0);
        way('exit3') && exit(3);
        way('hang') && sleep(600);
        way('memory') && hog();
        way('fatal') && eval('class EndsTest {}');
        if (way('fork') && pcntl_fork() === 0) {
            posix_kill(getmypid(), 9);
        }
    }

    public function testBehind(): void
    {
        $this->assertTrue(true);
    }
}
