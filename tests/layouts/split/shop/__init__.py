def total(prices, discount=0):
    if discount > 1:
        raise ValueError(discount)
    return sum(prices) * (1 - discount)


def currency(country):
    if country == "CH":
        return "CHF"
    if country == "GB":
        return "GBP"
    return "EUR"


def never_called():
    return None
