<?php
use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\TestCase;

class Odd_ÄTest extends TestCase
{
    /** @dataProvider rows */
    #[DataProvider('rows')]
    public function testRows(int $sum): void
    {
        $this->assertSame(2, $sum);
    }

    public static function rows(): array
    {
        return [
            "quo\"te 'n <b>&amp;" => [2],
            "line\nfeed" => [2],
            'grüße 😀 日本' => [2],
            'a|b [x] (y) .* ##teamcity[x]' => [2],
            "no UTF-8: \xff" => [2],
            [getenv('FAIL') ? 3 : 2],
        ];
    }
}
