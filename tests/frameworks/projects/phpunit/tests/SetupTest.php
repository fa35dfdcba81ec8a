<?php
use PHPUnit\Framework\TestCase;

class SetupTest extends TestCase
{
    public static function setUpBeforeClass(): void
    {
        if (way('class setup')) {
            throw new RuntimeException('no class');
        }
    }

    protected function setUp(): void
    {
        if (way('setup')) {
            throw new RuntimeException('no setup');
        }
    }

    public function testOne(): void
    {
        $this->assertTrue(true);
    }

    public function testTwo(): void
    {
        $this->assertTrue(true);
    }
}
