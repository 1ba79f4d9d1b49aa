-- A small shop, as of Wednesday 11 June 2025. Amounts are in cents.

CREATE TABLE customers (email TEXT PRIMARY KEY, name TEXT NOT NULL, account TEXT NOT NULL);
INSERT INTO customers VALUES
  ('ada@example.org', 'Ada Winter', 'Visa ending in 4242'),
  ('ben@example.org', 'Ben Okoro', 'PayPal'),
  ('cleo@example.org', 'Cleo Marchand', 'IBAN ending in 3000');

CREATE TABLE products (sku TEXT PRIMARY KEY, title TEXT NOT NULL, price INTEGER NOT NULL, stock INTEGER NOT NULL, hygiene INTEGER NOT NULL);
INSERT INTO products VALUES
  ('HP-200', 'Headphones Aria 200', 12900, 14, 0),
  ('HP-300', 'Headphones Aria 300', 17900, 3, 0),
  ('JU-S', 'Wool jumper, size S', 6900, 8, 0),
  ('JU-M', 'Wool jumper, size M', 6900, 5, 0),
  ('JU-L', 'Wool jumper, size L', 7400, 0, 0),
  ('TB-1', 'Electric toothbrush', 4900, 30, 1),
  ('RUG-2', 'Rug Fjord, 2 x 3 m', 24900, 1, 0),
  ('LMP-9', 'Desk lamp Nine', 5900, 11, 0);

CREATE TABLE orders (number TEXT PRIMARY KEY, email TEXT NOT NULL REFERENCES customers, status TEXT NOT NULL, placed_on TEXT NOT NULL, delivered_on TEXT, sku TEXT NOT NULL REFERENCES products, opened INTEGER NOT NULL, tracking TEXT);
INSERT INTO orders VALUES
  ('60105', 'ada@example.org', 'delivered', '2025-03-02', '2025-03-06', 'LMP-9', 1, 'TR-1105'),
  ('60112', 'ada@example.org', 'delivered', '2025-05-28', '2025-06-02', 'HP-200', 1, 'TR-1112'),
  ('60127', 'ben@example.org', 'delivered', '2025-04-10', '2025-04-14', 'RUG-2', 0, 'TR-1127'),
  ('60131', 'cleo@example.org', 'delivered', '2025-05-30', '2025-06-04', 'JU-S', 1, 'TR-1131'),
  ('60140', 'ben@example.org', 'shipped', '2025-06-08', NULL, 'TB-1', 0, 'TR-1140'),
  ('60144', 'cleo@example.org', 'placed', '2025-06-11', NULL, 'LMP-9', 0, NULL);

CREATE TABLE scans (tracking TEXT NOT NULL, day TEXT NOT NULL, place TEXT NOT NULL, expected_on TEXT NOT NULL);
INSERT INTO scans VALUES
  ('TR-1112', '2025-06-02', 'delivered to the front door', '2025-06-02'),
  ('TR-1131', '2025-06-04', 'delivered to a neighbour', '2025-06-04'),
  ('TR-1140', '2025-06-09', 'left the warehouse', '2025-06-12'),
  ('TR-1140', '2025-06-10', 'at the parcel centre of Leipzig', '2025-06-12');

CREATE TABLE returns (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, refundable INTEGER NOT NULL, arrived_on TEXT);
CREATE TABLE refunds (number TEXT PRIMARY KEY, return_number TEXT NOT NULL REFERENCES returns, amount INTEGER NOT NULL, account TEXT NOT NULL, expected_on TEXT NOT NULL);
CREATE TABLE credits (code TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, amount INTEGER NOT NULL);
CREATE TABLE exchanges (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, sku TEXT NOT NULL REFERENCES products);

INSERT INTO returns VALUES ('R-40001', '60105', 5900, '2025-03-20');
INSERT INTO refunds VALUES ('F-90001', 'R-40001', 5900, 'Visa ending in 4242', '2025-03-25');
