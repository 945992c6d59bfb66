package pgstore

import "github.com/ration-go/ration/driver"

// Text is the statement that decides batch, with its arguments in it.
func (s *Store) Text(batch ...*driver.Txn) string {
	q := newRequest(batch, &s.spaces)
	text, err := interpolate(s.statements[q.form], append(q.args, q.lax, int64(0)))
	if err != nil {
		panic(err)
	}
	return text
}
