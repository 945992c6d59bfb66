DELETE FROM @schema@.ration_meta;
INSERT INTO @schema@.ration_meta (version) VALUES (@version@);
