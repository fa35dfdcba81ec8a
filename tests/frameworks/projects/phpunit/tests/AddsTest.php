<?php
namespace Shop;

use PHPUnit\Framework\TestCase;

class AddsTest extends TestCase
{
    public function testAdds(): void
    {
        $this->assertSame(4, 2 + 2);
        if (getenv('FAIL')) {
            $this->assertSame("four\n", "five\n");
        }
    }

    public function testSkipped(): void
    {
        $this->markTestSkipped('not here');
    }

    public function testIncomplete(): void
    {
        $this->markTestIncomplete('later');
    }

    public function testRisky(): void
    {
    }

    /** @depends testAdds */
    #[\PHPUnit\Framework\Attributes\Depends('testAdds')]
    public function testDepends(): void
    {
        $this->assertTrue(true);
    }
}
