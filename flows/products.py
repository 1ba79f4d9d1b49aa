"""Questions about products: which one, whether there is one, and how it works."""

from jazz_select import BaseFlow


class ProductAdvice(BaseFlow):
    name = "product_advice"
    title = "Advice on products"
    description = "Help a customer to choose: compare products, sizes and features before buying."
    condition = (
        "The customer is thinking of buying and asks which product, size or model suits, or what a product can do."
    )
    desired_effects = [
        "The customer knows which product suits and why",
        "No product is recommended that does not fit the need",
    ]
    examples = [
        "Which of your vacuum cleaners is best for pet hair?",
        "im between sizes, do the hiking boots run small?",
        "What's the difference between the X200 and the X300?",
        "I'm looking for a present for a ten-year-old who loves dinosaurs, around 30 euros.",
        "Does the tablecloth contain latex? I'm allergic.",
        "will this bulb fit a lamp with an E14 socket",
        "We have a small balcony facing north. What kind of furniture would you suggest?",
    ]
    tools = ["search_products", "get_product_details", "compare_products"]
    aliases = ["recommendation"]
    steps = [
        "Find out the need in at most two questions: what for, and which limits (budget, size, material).",
        "Call search_products, and compare_products if several are left. Read exact facts from get_product_details.",
        "Recommend one, say why in one sentence, and name one cheaper or simpler alternative.",
        "If a fact is not in the data, say that you do not know it. Never guess about allergens or safety.",
    ]


class CheckStock(BaseFlow):
    name = "check_stock"
    title = "Look whether an item is in stock"
    description = "Say whether a product is in stock, and notify the customer when it is back."
    condition = "The customer knows which product it should be, and asks whether or when it can be had."
    desired_effects = [
        "The customer knows the stock or the day of the next delivery",
        "A notice is set where one is wanted",
    ]
    examples = [
        "Is the green armchair still available?",
        "when will the ps controller be back in stock",
        "Sold out again! Can you let me know as soon as there are new ones?",
        "Do you have the rain jacket in XXL?",
        "Has this teapot been discontinued? I can't find it on the website any longer.",
        "how many of the oak shelves do u have left, need 6",
    ]
    tools = ["search_products", "check_stock", "create_stock_alert"]
    aliases = ["availability"]
    steps = [
        "Identify product and variant with search_products.",
        "Call check_stock. In stock: say how many if the customer needs several, and how long it takes.",
        "Out of stock: say the expected day, and offer a notice with create_stock_alert.",
        "Discontinued: say so, and name the successor or the nearest alternative.",
    ]


class TroubleshootProduct(BaseFlow):
    """How does it work? When it is truly broken, it becomes `warranty_claim`."""

    name = "troubleshoot_product"
    title = "Help with a product that does not work"
    description = "Help to set up, connect, assemble, use or clean a product the customer has."
    condition = "The customer has the product and does not know how to set up, connect, assemble, use or clean it."
    desired_effects = ["The product does what the customer wants", "A true defect is recognised and passed on"]
    examples = [
        "How do I connect the speaker to my wifi?",
        "the manual is only in chinese, do you have an english one",
        "I can't figure out step 7 of the wardrobe assembly, the holes don't line up with the picture.",
        "Printer shows E5 and blinks. Is there a trick?",
        "Can the wool blanket go in the washing machine?",
        "how do u change the language on this watch lol",
    ]
    tools = ["search_products", "get_manual", "run_diagnostics_guide"]
    aliases = ["manual", "instructions"]
    steps = [
        "Ask for the model, find it with search_products, and ask what is on the display or in the way.",
        "Find the passage with get_manual and give the steps one at a time, waiting for the result of each.",
        "For devices with error codes follow run_diagnostics_guide, three rounds at most.",
        "If it still fails, it is a defect: go on with a claim or the warranty, and do not ask the same things again.",
    ]
