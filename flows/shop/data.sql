-- A small shop, as of Wednesday 11 June 2025. Amounts are in cents. The first column of a table tells its rows apart.
-- Numbers that the shop gives itself go on from the rows that are here: R-40001 is followed by R-40002.

PRAGMA user_version = 2;

-- --- who buys ---------------------------------------------------------------------

CREATE TABLE customers (email TEXT PRIMARY KEY, name TEXT NOT NULL, account TEXT NOT NULL, phone TEXT NOT NULL, contact_email TEXT NOT NULL, status TEXT NOT NULL, lock_reason TEXT, second_factor TEXT NOT NULL, credit_cents INTEGER NOT NULL, points INTEGER NOT NULL, closed_on TEXT);
INSERT INTO customers VALUES
  ('ada@example.org', 'Ada Winter', 'Visa ending in 4242', '+49 151 5550101', 'ada@example.org', 'active', NULL, 'none', 0, 120, NULL),
  ('ben@example.org', 'Ben Okoro', 'PayPal', '+49 151 5550102', 'ben@example.org', 'active', NULL, 'none', 0, 40, NULL),
  ('cleo@example.org', 'Cleo Marchand', 'IBAN ending in 3000', '+33 6 5550103', 'cleo@example.org', 'active', NULL, 'none', 0, 75, NULL),
  ('dina@example.org', 'Dina Sato', 'Mastercard ending in 5454', '+49 151 5550104', 'dina@example.org', 'active', NULL, 'none', 0, 310, NULL),
  ('emil@example.org', 'Emil Brandt', 'Visa ending in 9001', '+49 151 5550105', 'emil@example.org', 'locked', 'failed_attempts', 'device', 0, 15, NULL),
  ('fay@example.org', 'Fay Lindqvist', 'Visa ending in 7788', '+49 151 5550666', 'fay.l@elsewhere.invalid', 'active', NULL, 'device', 0, 220, NULL),
  ('gus@example.org', 'Gus Moreau', 'PayPal', '+32 470 555107', 'gus@example.org', 'active', NULL, 'none', 0, 0, NULL),
  ('hana@example.org', 'Hana Novak', 'Visa ending in 1881', '+49 151 5550108', 'hana@example.org', 'guest', NULL, 'none', 0, 0, NULL),
  ('ivo@example.org', 'Ivo Petrov', 'Mastercard ending in 6006', '+49 151 5550109', 'ivo@example.org', 'locked', 'fraud_team', 'none', 0, 0, NULL),
  ('jo@example.org', 'Jo Lind', 'PayPal', '+49 151 5550110', 'jo@example.org', 'active', NULL, 'none', 0, 0, NULL),
  ('kim@example.org', 'Kim Adler', 'Visa ending in 3131', '+49 151 5550111', 'kim@example.org', 'active', NULL, 'none', 0, 0, NULL);

CREATE TABLE addresses (number TEXT PRIMARY KEY, email TEXT NOT NULL REFERENCES customers, kind TEXT NOT NULL, address TEXT NOT NULL);
INSERT INTO addresses VALUES
  ('A-40001', 'ada@example.org', 'delivery', 'Lindenweg 41, 04103 Leipzig, DE'),
  ('A-40002', 'ada@example.org', 'billing', 'Lindenweg 41, 04103 Leipzig, DE'),
  ('A-40003', 'ben@example.org', 'delivery', 'Hafenstrasse 7, 20359 Hamburg, DE'),
  ('A-40004', 'cleo@example.org', 'delivery', 'Rue de Metz 12, 67000 Strasbourg, FR'),
  ('A-40005', 'dina@example.org', 'delivery', 'Am Markt 3, 50667 Koeln, DE'),
  ('A-40006', 'emil@example.org', 'delivery', 'Gartenstrasse 22, 10115 Berlin, DE'),
  ('A-40007', 'fay@example.org', 'delivery', 'Isarweg 9, 80331 Muenchen, DE'),
  ('A-40008', 'gus@example.org', 'delivery', 'Rue Haute 5, 1000 Bruxelles, BE');

CREATE TABLE postcodes (place TEXT PRIMARY KEY, country TEXT NOT NULL, postcode TEXT NOT NULL, city TEXT NOT NULL);
INSERT INTO postcodes VALUES
  ('DE-04103', 'DE', '04103', 'Leipzig'), ('DE-04109', 'DE', '04109', 'Leipzig'), ('DE-10115', 'DE', '10115', 'Berlin'),
  ('DE-20359', 'DE', '20359', 'Hamburg'), ('DE-22765', 'DE', '22765', 'Hamburg'), ('DE-50667', 'DE', '50667', 'Koeln'),
  ('DE-80331', 'DE', '80331', 'Muenchen'), ('FR-67000', 'FR', '67000', 'Strasbourg'), ('BE-1000', 'BE', '1000', 'Bruxelles');

CREATE TABLE contact_changes (number TEXT PRIMARY KEY, email TEXT NOT NULL REFERENCES customers, field TEXT NOT NULL, old TEXT NOT NULL, new TEXT NOT NULL, changed_on TEXT NOT NULL, restored INTEGER NOT NULL);
INSERT INTO contact_changes VALUES
  ('J-40001', 'gus@example.org', 'phone', '+32 470 555100', '+32 470 555107', '2024-02-01', 0),
  ('J-40002', 'fay@example.org', 'contact_email', 'fay@example.org', 'fay.l@elsewhere.invalid', '2025-06-09', 0),
  ('J-40003', 'fay@example.org', 'phone', '+49 151 5550106', '+49 151 5550666', '2025-06-09', 0);

CREATE TABLE sign_ins (number TEXT PRIMARY KEY, email TEXT NOT NULL REFERENCES customers, place TEXT NOT NULL, since TEXT NOT NULL);
INSERT INTO sign_ins VALUES
  ('B-40001', 'ada@example.org', 'Leipzig, phone', '2025-06-01'),
  ('B-40002', 'fay@example.org', 'Muenchen, phone', '2025-05-20'),
  ('B-40003', 'fay@example.org', 'Sao Paulo, browser', '2025-06-09');

CREATE TABLE codes (number TEXT PRIMARY KEY, email TEXT NOT NULL REFERENCES customers, sent_to TEXT NOT NULL, code TEXT NOT NULL, sent_on TEXT NOT NULL, tries INTEGER NOT NULL, used INTEGER NOT NULL);
CREATE TABLE verifications (number TEXT PRIMARY KEY, email TEXT NOT NULL REFERENCES customers, verified_on TEXT NOT NULL, proofs INTEGER NOT NULL);
CREATE TABLE outbox (number TEXT PRIMARY KEY, email TEXT NOT NULL, sent_on TEXT NOT NULL, subject TEXT NOT NULL, text TEXT NOT NULL, attachment TEXT NOT NULL);

-- --- what there is ----------------------------------------------------------------

CREATE TABLE products (sku TEXT PRIMARY KEY, title TEXT NOT NULL, price INTEGER NOT NULL, stock INTEGER NOT NULL, hygiene INTEGER NOT NULL, brand TEXT NOT NULL, facts TEXT NOT NULL, expected_on TEXT, successor TEXT, warranty_months INTEGER NOT NULL, repair_cents INTEGER NOT NULL);
INSERT INTO products VALUES
  ('HP-200', 'Headphones Aria 200', 12900, 14, 0, 'Aria', 'over-ear; wireless, 30 h; 250 g; noise cancelling: no', NULL, NULL, 24, 4500),
  ('HP-300', 'Headphones Aria 300', 17900, 3, 0, 'Aria', 'over-ear; wireless, 40 h; 260 g; noise cancelling: yes', NULL, NULL, 24, 5500),
  ('JU-S', 'Wool jumper, size S', 6900, 8, 0, 'Fjord', 'merino wool; chest 92 cm; runs small; hand wash', NULL, NULL, 24, 1500),
  ('JU-M', 'Wool jumper, size M', 6900, 5, 0, 'Fjord', 'merino wool; chest 100 cm; runs small; hand wash', NULL, NULL, 24, 1500),
  ('JU-L', 'Wool jumper, size L', 7400, 0, 0, 'Fjord', 'merino wool; chest 108 cm; runs small; hand wash', '2025-06-24', NULL, 24, 1500),
  ('TB-1', 'Electric toothbrush', 4900, 30, 1, 'Pearl', 'charger included; timer: 2 min; latex: none', NULL, NULL, 24, 6000),
  ('RUG-2', 'Rug Fjord, 2 x 3 m', 24900, 1, 0, 'Fjord', 'wool and cotton; 2 x 3 m; underfloor heating: yes', NULL, NULL, 24, 8000),
  ('LMP-9', 'Desk lamp Nine', 5900, 11, 0, 'Nine', 'socket E14; height 45 cm; bulb included: no', NULL, NULL, 24, 2500),
  ('RUG-1', 'Rug Fjord, 1 x 2 m', 12900, 4, 0, 'Fjord', 'wool and cotton; 1 x 2 m; underfloor heating: yes', NULL, NULL, 24, 8000),
  ('LMP-F', 'Floor lamp Nine', 11900, 6, 0, 'Nine', 'socket E27; height 150 cm; bulb included: yes', NULL, NULL, 24, 3500),
  ('CHR-O', 'Oak chair', 8900, 12, 0, 'Grove', 'oak; seat height 46 cm; load 120 kg', NULL, NULL, 60, 4000),
  ('TBL-O', 'Oak table, 160 cm', 39900, 2, 0, 'Grove', 'oak; 160 x 80 cm; seats 6', NULL, NULL, 60, 9000),
  ('CND-3', 'Candles, box of three', 1400, 40, 0, 'Grove', 'soy wax; burns 20 h each; nuts: none', NULL, NULL, 24, 9900),
  ('KET-1', 'Kettle Rapid', 3900, 9, 0, 'Rapid', '1.7 l; 2200 W; lime filter: yes', NULL, NULL, 24, 4500),
  ('TST-1', 'Toaster Rapid', 3500, 7, 0, 'Rapid', '2 slots; 900 W; crumb tray: yes', NULL, NULL, 24, 4500),
  ('BLN-5', 'Blender Five', 9900, 5, 0, 'Rapid', '1.5 l; 1200 W; dishwasher: jug only', NULL, NULL, 24, 4200),
  ('VAS-1', 'Vase Dune', 2600, 8, 0, 'Dune', 'stoneware; height 28 cm; waterproof: yes', NULL, NULL, 24, 9900),
  ('SPK-1', 'Speaker Pebble', 8900, 10, 0, 'Aria', 'wifi and bluetooth; 12 h; battery: built in', NULL, NULL, 24, 3800),
  ('TEA-1', 'Teapot Dune', 3200, 0, 0, 'Dune', 'stoneware; 1 l', NULL, 'TEA-2', 24, 9900),
  ('TEA-2', 'Teapot Dune II', 3400, 15, 0, 'Dune', 'stoneware; 1.2 l; infuser included', NULL, NULL, 24, 9900),
  ('COF-R', 'Coffee Harbour, 500 g', 1200, 60, 1, 'Harbour', 'medium roast; arabica', NULL, NULL, 24, 9900),
  ('COF-D', 'Coffee Harbour decaf, 500 g', 1300, 25, 1, 'Harbour', 'medium roast; decaf; arabica', NULL, NULL, 24, 9900),
  ('DOG-5', 'Dog food Trail, 5 kg', 2800, 18, 1, 'Trail', 'chicken and rice; grain: rice', NULL, NULL, 24, 9900),
  ('GC-50', 'Gift card, 50 EUR', 5000, 999, 0, 'House', 'valid for five years', NULL, NULL, 24, 9900);

ALTER TABLE products ADD COLUMN refill INTEGER NOT NULL DEFAULT 0;
UPDATE products SET refill = 1 WHERE sku IN ('COF-R', 'COF-D', 'DOG-5');

CREATE TABLE manuals (number TEXT PRIMARY KEY, sku TEXT NOT NULL REFERENCES products, topic TEXT NOT NULL, text TEXT NOT NULL);
INSERT INTO manuals VALUES
  ('MA-40001', 'SPK-1', 'connect to the wifi', 'Hold the round button for five seconds until the ring turns white. Choose Pebble in the app. Enter the password of the wifi.'),
  ('MA-40002', 'SPK-1', 'clean', 'Wipe it with a dry cloth. It is not waterproof.'),
  ('MA-40003', 'BLN-5', 'clean', 'Rinse the jug at once. The jug goes into the dishwasher, the base never.'),
  ('MA-40004', 'TBL-O', 'assemble', 'Lay the top on its face. Screw the legs to the frame by hand. Turn it over. Then tighten the screws.'),
  ('MA-40005', 'JU-M', 'wash', 'By hand, at 30 degrees. Dry it flat.');

CREATE TABLE diagnostics (number TEXT PRIMARY KEY, sku TEXT NOT NULL REFERENCES products, code TEXT NOT NULL, round INTEGER NOT NULL, step TEXT NOT NULL);
INSERT INTO diagnostics VALUES
  ('DG-40001', 'SPK-1', 'E5', 1, 'Charge it for an hour and start it again.'),
  ('DG-40002', 'SPK-1', 'E5', 2, 'Hold both buttons for ten seconds to set it back.'),
  ('DG-40003', 'SPK-1', 'E5', 3, 'Connect it to another wifi, such as that of a phone.'),
  ('DG-40004', 'BLN-5', 'E1', 1, 'Take the jug off, turn it by a quarter and put it back on.'),
  ('DG-40005', 'BLN-5', 'E1', 2, 'Let it cool down for half an hour.');

CREATE TABLE stock_alerts (number TEXT PRIMARY KEY, email TEXT NOT NULL, sku TEXT NOT NULL REFERENCES products, asked_on TEXT NOT NULL);

-- --- what was bought ----------------------------------------------------------------

CREATE TABLE orders (number TEXT PRIMARY KEY, email TEXT NOT NULL REFERENCES customers, status TEXT NOT NULL, placed_on TEXT NOT NULL, promised_on TEXT, delivered_on TEXT, tracking TEXT, address TEXT NOT NULL, shipping TEXT NOT NULL, shipping_fee INTEGER NOT NULL, gift_fee INTEGER NOT NULL);
INSERT INTO orders VALUES
  ('60031', 'cleo@example.org', 'delivered', '2024-10-05', '2024-10-09', '2024-10-08', 'TR-1031', 'Rue de Metz 12, 67000 Strasbourg, FR', 'standard', 0, 0),
  ('60090', 'gus@example.org', 'delivered', '2025-01-10', '2025-01-10', '2025-01-10', NULL, 'Rue Haute 5, 1000 Bruxelles, BE', 'email', 0, 0),
  ('60098', 'ada@example.org', 'delivered', '2025-05-14', '2025-05-19', '2025-05-19', 'TR-1098', 'Lindenweg 41, 04103 Leipzig, DE', 'standard', 0, 0),
  ('60105', 'ada@example.org', 'delivered', '2025-03-02', '2025-03-06', '2025-03-06', 'TR-1105', 'Lindenweg 41, 04103 Leipzig, DE', 'standard', 0, 0),
  ('60112', 'ada@example.org', 'delivered', '2025-05-28', '2025-06-02', '2025-06-02', 'TR-1112', 'Lindenweg 41, 04103 Leipzig, DE', 'standard', 0, 0),
  ('60121', 'emil@example.org', 'shipped', '2025-06-06', '2025-06-09', NULL, 'TR-1121', 'Gartenstrasse 22, 10115 Berlin, DE', 'express', 990, 0),
  ('60122', 'fay@example.org', 'delivered', '2025-06-01', '2025-06-05', '2025-06-05', 'TR-1122', 'Isarweg 9, 80331 Muenchen, DE', 'standard', 490, 0),
  ('60124', 'fay@example.org', 'delivered', '2025-05-10', '2025-05-14', '2025-05-14', 'TR-1124', 'Isarweg 9, 80331 Muenchen, DE', 'standard', 490, 0),
  ('60127', 'ben@example.org', 'delivered', '2025-04-10', '2025-04-14', '2025-04-14', 'TR-1127', 'Hafenstrasse 7, 20359 Hamburg, DE', 'standard', 0, 0),
  ('60129', 'dina@example.org', 'cancelled', '2025-05-30', '2025-06-04', NULL, NULL, 'Am Markt 3, 50667 Koeln, DE', 'standard', 0, 0),
  ('60131', 'cleo@example.org', 'delivered', '2025-05-30', '2025-06-04', '2025-06-04', 'TR-1131', 'Rue de Metz 12, 67000 Strasbourg, FR', 'standard', 0, 0),
  ('60132', 'hana@example.org', 'delivered', '2025-05-29', '2025-06-05', '2025-06-05', 'TR-1132', 'Ufer 1, 20359 Hamburg, DE', 'standard', 0, 0),
  ('60133', 'dina@example.org', 'delivered', '2025-05-31', '2025-06-05', '2025-06-05', 'TR-1133', 'Am Markt 3, 50667 Koeln, DE', 'standard', 490, 0),
  ('60134', 'dina@example.org', 'delivered', '2025-06-04', '2025-06-10', '2025-06-10', 'TR-1134', 'Am Markt 3, 50667 Koeln, DE', 'standard', 490, 0),
  ('60135', 'emil@example.org', 'delivered', '2025-05-28', '2025-06-03', '2025-06-03', 'TR-1135', 'Gartenstrasse 22, 10115 Berlin, DE', 'standard', 490, 0),
  ('60136', 'ben@example.org', 'delivered', '2025-06-03', '2025-06-07', '2025-06-07', 'TR-1136', 'Hafenstrasse 7, 20359 Hamburg, DE', 'standard', 490, 0),
  ('60137', 'kim@example.org', 'delivered', '2025-06-04', '2025-06-07', '2025-06-07', 'TR-1137', 'Am Hang 8, 04109 Leipzig, DE', 'standard', 0, 0),
  ('60139', 'kim@example.org', 'shipped', '2025-05-28', '2025-06-03', NULL, 'TR-1139', 'Am Hang 8, 04109 Leipzig, DE', 'standard', 0, 0),
  ('60138', 'dina@example.org', 'shipped', '2025-05-27', '2025-06-02', NULL, 'TR-1138', 'Am Markt 3, 50667 Koeln, DE', 'standard', 0, 0),
  ('60140', 'ben@example.org', 'shipped', '2025-06-08', '2025-06-12', NULL, 'TR-1140', 'Hafenstrasse 7, 20359 Hamburg, DE', 'standard', 0, 0),
  ('60141', 'hana@example.org', 'placed', '2025-06-11', '2025-06-16', NULL, NULL, 'Ufer 1, 20359 Hamburg, DE', 'standard', 490, 0),
  ('60142', 'dina@example.org', 'placed', '2025-06-10', '2025-06-16', NULL, NULL, 'Am Markt 3, 50667 Koeln, DE', 'standard', 0, 0),
  ('60143', 'dina@example.org', 'packed', '2025-06-09', '2025-06-13', NULL, NULL, 'Am Markt 3, 50667 Koeln, DE', 'standard', 490, 0),
  ('60144', 'cleo@example.org', 'placed', '2025-06-11', '2025-06-16', NULL, NULL, 'Rue de Metz 12, 67000 Strasbourg, FR', 'standard', 0, 0),
  ('60146', 'fay@example.org', 'placed', '2025-06-10', '2025-06-16', NULL, NULL, 'Depot 4, 10115 Berlin, DE', 'express', 990, 0),
  ('60147', 'gus@example.org', 'basket', '2025-06-11', NULL, NULL, NULL, 'Rue Haute 5, 1000 Bruxelles, BE', 'standard', 690, 0);

CREATE TABLE order_items (line INTEGER PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, sku TEXT NOT NULL REFERENCES products, quantity INTEGER NOT NULL, price INTEGER NOT NULL, opened INTEGER NOT NULL);
INSERT INTO order_items (order_number, sku, quantity, price, opened) VALUES
  ('60031', 'BLN-5', 1, 9900, 1),
  ('60090', 'GC-50', 1, 5000, 0),
  ('60098', 'JU-M', 1, 6900, 0), ('60098', 'TB-1', 1, 4900, 1),
  ('60105', 'LMP-9', 1, 5900, 1),
  ('60112', 'HP-200', 1, 12900, 1),
  ('60121', 'SPK-1', 1, 8900, 0),
  ('60122', 'KET-1', 1, 3900, 0),
  ('60124', 'LMP-F', 1, 11900, 1),
  ('60127', 'RUG-2', 1, 24900, 0),
  ('60129', 'CHR-O', 1, 8900, 0),
  ('60131', 'JU-S', 1, 6900, 1),
  ('60132', 'TBL-O', 1, 39900, 1),
  ('60133', 'LMP-9', 1, 5900, 0),
  ('60134', 'TEA-2', 1, 3400, 0),
  ('60135', 'BLN-5', 1, 9900, 1),
  ('60136', 'VAS-1', 1, 2600, 1),
  ('60138', 'RUG-1', 1, 12900, 0),
  ('60140', 'TB-1', 1, 4900, 0),
  ('60141', 'CND-3', 2, 1400, 0),
  ('60142', 'CHR-O', 2, 8900, 0), ('60142', 'CND-3', 1, 1400, 0),
  ('60143', 'LMP-F', 1, 11900, 0),
  ('60144', 'LMP-9', 1, 5900, 0),
  ('60146', 'HP-300', 1, 17900, 0),
  ('60147', 'SPK-1', 1, 8900, 0),
  ('60137', 'LMP-9', 1, 5900, 1), ('60139', 'RUG-1', 1, 12900, 0);

CREATE TABLE more_parcels (tracking TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders);
INSERT INTO more_parcels VALUES ('TR-2098', '60098');

CREATE TABLE scans (tracking TEXT NOT NULL, day TEXT NOT NULL, place TEXT NOT NULL, expected_on TEXT NOT NULL);
INSERT INTO scans VALUES
  ('TR-1098', '2025-05-19', 'delivered to the front door', '2025-05-19'),
  ('TR-2098', '2025-05-19', 'delivered to the front door', '2025-05-19'),
  ('TR-1112', '2025-06-02', 'delivered to the front door', '2025-06-02'),
  ('TR-1121', '2025-06-10', 'at the parcel centre of Hannover', '2025-06-13'),
  ('TR-1122', '2025-06-05', 'delivered to the front door', '2025-06-05'),
  ('TR-1131', '2025-06-04', 'delivered to a neighbour', '2025-06-04'),
  ('TR-1133', '2025-06-05', 'delivered, signed for by Miller', '2025-06-05'),
  ('TR-1134', '2025-06-10', 'delivered to the front door', '2025-06-10'),
  ('TR-1137', '2025-06-07', 'delivered to the front door', '2025-06-07'),
  ('TR-1139', '2025-05-31', 'at the parcel centre of Kassel', '2025-06-03'),
  ('TR-1138', '2025-05-30', 'at the parcel centre of Hagen', '2025-06-02'),
  ('TR-1140', '2025-06-09', 'left the warehouse', '2025-06-12'),
  ('TR-1140', '2025-06-10', 'at the parcel centre of Leipzig', '2025-06-12'),
  ('TR-9001', '2025-06-09', 'handed in at a parcel shop', '2025-06-12');

CREATE TABLE gift_options (order_number TEXT PRIMARY KEY REFERENCES orders, paper TEXT NOT NULL, card_text TEXT NOT NULL, hide_prices INTEGER NOT NULL);
CREATE TABLE item_changes (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, sku TEXT NOT NULL REFERENCES products, quantity INTEGER NOT NULL, difference INTEGER NOT NULL);
CREATE TABLE cancellations (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, cancelled_on TEXT NOT NULL, released INTEGER NOT NULL);
INSERT INTO cancellations VALUES ('K-60129', '60129', '2025-05-30', 1);

-- --- money --------------------------------------------------------------------------

CREATE TABLE charges (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, for_number TEXT NOT NULL, amount INTEGER NOT NULL, status TEXT NOT NULL, day TEXT NOT NULL, account TEXT NOT NULL);
INSERT INTO charges VALUES
  ('CH-40001', '60031', '', 9900, 'booked', '2024-10-05', 'IBAN ending in 3000'),
  ('CH-40002', '60090', '', 5000, 'booked', '2025-01-10', 'PayPal'),
  ('CH-40003', '60098', '', 11800, 'booked', '2025-05-14', 'Visa ending in 4242'),
  ('CH-40004', '60105', '', 5900, 'booked', '2025-03-02', 'Visa ending in 4242'),
  ('CH-40005', '60112', '', 12900, 'booked', '2025-05-28', 'Visa ending in 4242'),
  ('CH-40006', '60121', '', 9890, 'booked', '2025-06-06', 'Visa ending in 9001'),
  ('CH-40007', '60122', '', 4390, 'booked', '2025-06-01', 'Visa ending in 7788'),
  ('CH-40008', '60124', '', 12390, 'booked', '2025-05-10', 'Visa ending in 7788'),
  ('CH-40009', '60127', '', 24900, 'booked', '2025-04-10', 'PayPal'),
  ('CH-40010', '60129', '', 8900, 'released', '2025-05-30', 'Mastercard ending in 5454'),
  ('CH-40011', '60131', '', 6900, 'booked', '2025-05-30', 'IBAN ending in 3000'),
  ('CH-40012', '60132', '', 39900, 'booked', '2025-05-29', 'Visa ending in 1881'),
  ('CH-40013', '60133', '', 6390, 'booked', '2025-05-31', 'Mastercard ending in 5454'),
  ('CH-40014', '60134', '', 3890, 'booked', '2025-06-04', 'Mastercard ending in 5454'),
  ('CH-40015', '60134', '', 3890, 'booked', '2025-06-04', 'Mastercard ending in 5454'),
  ('CH-40016', '60135', '', 10390, 'booked', '2025-05-28', 'Visa ending in 9001'),
  ('CH-40017', '60136', '', 3090, 'booked', '2025-06-03', 'PayPal'),
  ('CH-40018', '60138', '', 12900, 'booked', '2025-05-27', 'Mastercard ending in 5454'),
  ('CH-30026', '60137', '', 5900, 'booked', '2025-06-04', 'Visa ending in 3131'),
  ('CH-30027', '60139', '', 12900, 'booked', '2025-05-28', 'Visa ending in 3131'),
  ('CH-40019', '60140', '', 4900, 'booked', '2025-06-08', 'PayPal'),
  ('CH-40020', '60141', '', 3290, 'booked', '2025-06-11', 'Visa ending in 1881'),
  ('CH-40021', '60142', '', 19200, 'booked', '2025-06-10', 'Mastercard ending in 5454'),
  ('CH-40022', '60143', '', 12390, 'booked', '2025-06-09', 'Mastercard ending in 5454'),
  ('CH-40023', '60143', '', 12390, 'reserved', '2025-06-09', 'Mastercard ending in 5454'),
  ('CH-40024', '60144', '', 5900, 'reserved', '2025-06-11', 'IBAN ending in 3000'),
  ('CH-40025', '60146', '', 18890, 'booked', '2025-06-10', 'Visa ending in 7788');

CREATE TABLE refunds (number TEXT PRIMARY KEY, for_number TEXT NOT NULL, order_number TEXT REFERENCES orders, amount INTEGER NOT NULL, account TEXT NOT NULL, expected_on TEXT NOT NULL);
CREATE TABLE invoices (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, name TEXT NOT NULL, vat_number TEXT NOT NULL, amount INTEGER NOT NULL, issued_on TEXT NOT NULL);
INSERT INTO invoices VALUES
  ('I-40001', '60105', 'Ada Winter', '', 5900, '2025-03-02'),
  ('I-40002', '60132', 'Hana Novak', '', 39900, '2025-05-29');
CREATE TABLE blocked_cards (account TEXT PRIMARY KEY, blocked_on TEXT NOT NULL);
CREATE TABLE fraud_cases (number TEXT PRIMARY KEY, charge_number TEXT NOT NULL REFERENCES charges, opened_on TEXT NOT NULL, answer_by TEXT NOT NULL);

CREATE TABLE payment_attempts (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, day TEXT NOT NULL, method TEXT NOT NULL, reason TEXT NOT NULL);
INSERT INTO payment_attempts VALUES
  ('PA-40001', '60147', '2025-06-11', 'Visa ending in 2020', 'wrong_expiry_date'),
  ('PA-40002', '60147', '2025-06-11', 'Visa ending in 2020', 'not_confirmed_in_the_banking_app');
CREATE TABLE payment_methods (number TEXT PRIMARY KEY, email TEXT NOT NULL REFERENCES customers, method TEXT NOT NULL, usable INTEGER NOT NULL, why_not TEXT NOT NULL);
INSERT INTO payment_methods VALUES
  ('PM-40001', 'ada@example.org', 'Visa ending in 4242', 1, ''),
  ('PM-40002', 'dina@example.org', 'Mastercard ending in 5454', 1, ''),
  ('PM-40003', 'gus@example.org', 'Visa ending in 2020', 0, 'expired in 2025-05'),
  ('PM-40004', 'gus@example.org', 'PayPal', 1, ''),
  ('PM-40005', 'gus@example.org', 'bank transfer', 1, '');
CREATE TABLE payment_links (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, amount INTEGER NOT NULL, valid_until TEXT NOT NULL);

CREATE TABLE promo_codes (code TEXT PRIMARY KEY, percent INTEGER NOT NULL, valid_from TEXT NOT NULL, valid_until TEXT NOT NULL, min_cents INTEGER NOT NULL, excluded_brand TEXT NOT NULL, first_order_only INTEGER NOT NULL);
INSERT INTO promo_codes VALUES
  ('WELCOME10', 10, '2025-01-01', '2025-12-31', 0, '', 1),
  ('SUMMER15', 15, '2025-06-01', '2025-06-30', 5000, 'Aria', 0),
  ('SPRING20', 20, '2025-03-01', '2025-04-30', 0, '', 0);
CREATE TABLE discounts (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, code TEXT NOT NULL REFERENCES promo_codes, amount INTEGER NOT NULL, reserved INTEGER NOT NULL);

CREATE TABLE gift_cards (number TEXT PRIMARY KEY, order_number TEXT NOT NULL, balance INTEGER NOT NULL, bought_on TEXT NOT NULL, status TEXT NOT NULL);
INSERT INTO gift_cards VALUES
  ('G-40001', '60090', 3150, '2025-01-10', 'active'),
  ('G-40002', '', 5000, '2019-12-01', 'active'),
  ('G-40003', '', 2000, '2024-11-20', 'active');

-- --- what goes back -------------------------------------------------------------------

CREATE TABLE returns (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, sku TEXT NOT NULL REFERENCES products, refundable INTEGER NOT NULL, arrived_on TEXT, deduction TEXT NOT NULL, tracking TEXT);
INSERT INTO returns VALUES
  ('R-40001', '60105', 'LMP-9', 5900, '2025-03-20', '', NULL),
  ('R-30002', '60124', 'LMP-F', 10700, '2025-05-27', '12.00 EUR for a missing bulb', NULL),
  ('R-30003', '60135', 'BLN-5', 9900, NULL, '', 'TR-9001');
INSERT INTO refunds VALUES
  ('F-90001', 'R-40001', '60105', 5900, 'Visa ending in 4242', '2025-03-25'),
  ('F-90002', 'R-30002', '60124', 10700, 'Visa ending in 7788', '2025-06-02');
CREATE TABLE credits (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, sku TEXT NOT NULL REFERENCES products, amount INTEGER NOT NULL);
CREATE TABLE exchanges (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, sku TEXT NOT NULL REFERENCES products, wanted_sku TEXT NOT NULL REFERENCES products, difference INTEGER NOT NULL);
CREATE TABLE labels (number TEXT PRIMARY KEY, for_number TEXT NOT NULL, form TEXT NOT NULL);
CREATE TABLE dropoffs (number TEXT PRIMARY KEY, country TEXT NOT NULL, postcode TEXT NOT NULL, name TEXT NOT NULL, address TEXT NOT NULL);
INSERT INTO dropoffs VALUES
  ('DP-40001', 'DE', '10115', 'Kiosk Mitte', 'Gartenstrasse 90, 10115 Berlin'),
  ('DP-40002', 'DE', '10179', 'Post at the station', 'Bruckenstrasse 1, 10179 Berlin'),
  ('DP-40003', 'DE', '04103', 'Bakery Linde', 'Lindenweg 2, 04103 Leipzig'),
  ('DP-40004', 'DE', '20359', 'Harbour Kiosk', 'Hafenstrasse 80, 20359 Hamburg'),
  ('DP-40005', 'DE', '80331', 'Post at the gate', 'Tal 12, 80331 Muenchen'),
  ('DP-40006', 'FR', '67000', 'Tabac du Coin', 'Rue de Metz 1, 67000 Strasbourg');
CREATE TABLE accounting_cases (number TEXT PRIMARY KEY, return_number TEXT NOT NULL REFERENCES returns, opened_on TEXT NOT NULL);

CREATE TABLE photos (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, status TEXT NOT NULL);
INSERT INTO photos VALUES ('PH-40001', '60136', 'received');
CREATE TABLE claims (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, sku TEXT NOT NULL REFERENCES products, kind TEXT NOT NULL, description TEXT NOT NULL, must_come_back INTEGER NOT NULL, opened_on TEXT NOT NULL);
CREATE TABLE repairs (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, sku TEXT NOT NULL REFERENCES products, fault TEXT NOT NULL, outcome TEXT NOT NULL, quote INTEGER NOT NULL);
CREATE TABLE replacements (number TEXT PRIMARY KEY, case_number TEXT NOT NULL, order_number TEXT NOT NULL REFERENCES orders, sku TEXT NOT NULL REFERENCES products, express INTEGER NOT NULL);
CREATE TABLE spare_parts (number TEXT PRIMARY KEY, case_number TEXT NOT NULL, part TEXT NOT NULL);
CREATE TABLE pickups (number TEXT PRIMARY KEY, case_number TEXT NOT NULL, day TEXT NOT NULL, address TEXT NOT NULL);

-- --- on the way -----------------------------------------------------------------------

CREATE TABLE shipping_rates (number TEXT PRIMARY KEY, country TEXT NOT NULL, way TEXT NOT NULL, cents INTEGER NOT NULL, days INTEGER NOT NULL, free_from INTEGER NOT NULL, duties INTEGER NOT NULL);
INSERT INTO shipping_rates VALUES
  ('SR-40001', 'DE', 'standard', 490, 4, 5000, 0), ('SR-30002', 'DE', 'express', 990, 1, 0, 0),
  ('SR-30003', 'FR', 'standard', 690, 5, 7500, 0), ('SR-40004', 'FR', 'express', 1490, 2, 0, 0),
  ('SR-40005', 'BE', 'standard', 690, 5, 7500, 0), ('SR-40006', 'IE', 'standard', 1190, 7, 10000, 0),
  ('SR-40007', 'NO', 'standard', 1490, 8, 0, 1), ('SR-40008', 'CH', 'standard', 1290, 6, 0, 1);
CREATE TABLE delivery_slots (number TEXT PRIMARY KEY, country TEXT NOT NULL, day TEXT NOT NULL, hours TEXT NOT NULL, place TEXT NOT NULL, tracking TEXT);
INSERT INTO delivery_slots VALUES
  ('SL-40001', 'DE', '2025-06-13', '18:00-21:00', 'at the door', NULL),
  ('SL-40002', 'DE', '2025-06-14', '09:00-13:00', 'at the door', NULL),
  ('SL-40003', 'DE', '2025-06-12', '10:00-20:00', 'pickup point Harbour Kiosk', NULL),
  ('SL-40004', 'DE', '2025-06-16', '09:00-13:00', 'at the door', 'TR-1121');
CREATE TABLE redirects (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, address TEXT NOT NULL, fee INTEGER NOT NULL);
CREATE TABLE delays (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, promised_on TEXT NOT NULL, reported_on TEXT NOT NULL);
CREATE TABLE investigations (number TEXT PRIMARY KEY, order_number TEXT NOT NULL REFERENCES orders, kind TEXT NOT NULL, report TEXT NOT NULL, opened_on TEXT NOT NULL, answer_by TEXT NOT NULL);
INSERT INTO investigations VALUES ('V-40001', '60133', 'marked_as_delivered', '', '2025-06-06', '2025-06-10');

-- --- what comes by itself ---------------------------------------------------------------

CREATE TABLE subscriptions (number TEXT PRIMARY KEY, email TEXT NOT NULL REFERENCES customers, sku TEXT NOT NULL REFERENCES products, quantity INTEGER NOT NULL, every_weeks INTEGER NOT NULL, next_delivery TEXT NOT NULL, packed INTEGER NOT NULL, status TEXT NOT NULL, paused_until TEXT, paid_until TEXT NOT NULL, prepaid_cents INTEGER NOT NULL);
INSERT INTO subscriptions VALUES
  ('S-40001', 'emil@example.org', 'COF-R', 2, 4, '2025-06-20', 0, 'running', NULL, '2025-06-20', 0),
  ('S-40002', 'emil@example.org', 'DOG-5', 1, 6, '2025-06-12', 1, 'running', NULL, '2025-08-31', 5600),
  ('S-40003', 'ada@example.org', 'COF-R', 1, 4, '2025-06-18', 0, 'running', NULL, '2025-06-18', 0),
  ('S-40004', 'dina@example.org', 'COF-D', 1, 8, '2025-07-02', 0, 'ended', NULL, '2025-05-07', 0);

-- --- who helps --------------------------------------------------------------------------

CREATE TABLE summaries (number TEXT PRIMARY KEY, email TEXT NOT NULL, wish TEXT NOT NULL, tried TEXT NOT NULL, written_on TEXT NOT NULL);
CREATE TABLE colleagues (name TEXT PRIMARY KEY, team TEXT NOT NULL, present INTEGER NOT NULL, waiting_minutes INTEGER NOT NULL);
INSERT INTO colleagues VALUES
  ('Mira', 'orders', 1, 4), ('Jonas', 'payments', 1, 12), ('Sofia', 'complaints', 1, 6), ('Tariq', 'orders', 0, 0);
CREATE TABLE transfers (number TEXT PRIMARY KEY, summary_number TEXT NOT NULL REFERENCES summaries, colleague TEXT NOT NULL REFERENCES colleagues);
CREATE TABLE callback_slots (number TEXT PRIMARY KEY, day TEXT NOT NULL, hours TEXT NOT NULL);
INSERT INTO callback_slots VALUES
  ('CS-40001', '2025-06-11', '17:00-18:00'), ('CS-40002', '2025-06-12', '10:00-11:00'),
  ('CS-40003', '2025-06-12', '14:00-15:00'), ('CS-40004', '2025-06-13', '17:00-18:00');
CREATE TABLE callbacks (number TEXT PRIMARY KEY, summary_number TEXT NOT NULL REFERENCES summaries, slot_number TEXT NOT NULL UNIQUE REFERENCES callback_slots, phone TEXT NOT NULL);
