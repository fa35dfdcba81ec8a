<?php
use PHPUnit\Framework\TestCase;

way('import kill') && posix_kill(getmypid(), 9);
way('import exit') && exit(0);
if (way('import')) {
    throw new RuntimeException('no import');
}

class ImportsTest extends TestCase
{
    public function testOne(): void
    {
        $this->assertTrue(true);
    }
}
