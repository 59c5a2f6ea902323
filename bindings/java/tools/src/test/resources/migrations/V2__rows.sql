INSERT INTO orders VALUES (1, 'Ada; Grace'), (2, 'Edsger');
