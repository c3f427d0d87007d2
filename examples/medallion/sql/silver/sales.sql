CREATE MATERIALIZED VIEW silver.sales (
  sale_id, city COMMENT 'Where the shop is', product, day, revenue DECIMAL(12, 2),
  PRIMARY KEY (sale_id),
  CONSTRAINT positive EXPECT (revenue > 0) ON VIOLATION QUARANTINE ROW
)
COMMENT 'Sales with the city of their shop; a sale of no money is kept apart until it is corrected'
AS SELECT s.sale_id, coalesce(h.city, 'unknown'), s.product, s.day, s.pieces * s.price
FROM bronze.sales s LEFT JOIN bronze.shops h ON s.shop = h.shop
