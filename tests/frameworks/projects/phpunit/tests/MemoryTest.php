<?php
use PHPUnit\Framework\TestCase;

class MemoryTest extends TestCase
{
    public function testHolds(): void
    {
        usleep(200000); // what it has before is seen
        $text = str_repeat('x', 100 << 20);
        usleep(300000);
        $this->assertSame(100 << 20, strlen($text));
    }
}
