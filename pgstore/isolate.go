package pgstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// isolated runs sql where the default isolation level is another than read committed: with a transaction around it, which
// says its level. To stay one round trip that is one text of three statements, which has to hold its arguments.
func isolated(ctx context.Context, conn *pgxpool.Conn, sql string, args []any) (*reply, error) {
	c := conn.Conn().PgConn()
	text, err := interpolate(sql, args)
	if err != nil {
		return nil, err
	}
	if c.ParameterStatus("standard_conforming_strings") == "off" {
		return nil, errors.New("with a default isolation level other than read committed, standard_conforming_strings must be on")
	}
	var p *reply
	results := c.Exec(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED; "+text+"; COMMIT")
	for results.NextResult() {
		rows := results.ResultReader()
		for rows.NextRow() {
			p = &reply{}
			if err = p.readValues(rows.FieldDescriptions(), rows.Values()); err != nil {
				break
			}
		}
		if _, closing := rows.Close(); closing != nil {
			break // it is that of results too
		}
	}
	if closing := results.Close(); closing != nil {
		err = closing
	}
	if c.TxStatus() != 'I' && !c.IsClosed() {
		if undo := c.Exec(ctx, "ROLLBACK").Close(); undo != nil {
			_ = c.Close(ctx) // it is of no more use
		}
	}
	if err == nil && p == nil {
		err = errReply
	}
	return p, err
}

// interpolate puts args into sql, in place of $1 to $n. There are numbers, bytes, lists of these, flags and plain words.
func interpolate(sql string, args []any) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(sql, "$")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		digits := len(after) - len(strings.TrimLeft(after, "0123456789"))
		n, err := strconv.Atoi(after[:digits])
		if err != nil || n < 1 || n > len(args) {
			return "", fmt.Errorf("%w: no argument for a statement", errReply)
		}
		if err := writeLiteral(&b, args[n-1]); err != nil {
			return "", err
		}
		sql = after[digits:]
	}
}

func writeLiteral(b *strings.Builder, arg any) error {
	switch v := arg.(type) {
	case bool:
		fmt.Fprintf(b, "'%t'", v)
	case int64:
		fmt.Fprintf(b, "'%d'", v)
	case []int64:
		b.WriteString("'{")
		for i, n := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.FormatInt(n, 10))
		}
		b.WriteString("}'")
	case []byte:
		b.WriteString(`'\x` + hex.EncodeToString(v) + `'`)
	case [][]byte:
		b.WriteString("'{")
		for i, text := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(`"\\x` + hex.EncodeToString(text) + `"`)
		}
		b.WriteString("}'")
	case string:
		if strings.ContainsAny(v, `'\`) {
			return fmt.Errorf("%w: %q is no plain word", errReply, v)
		}
		b.WriteString("'" + v + "'")
	default:
		return fmt.Errorf("%w: %T is no argument", errReply, arg)
	}
	return nil
}

// execMode is how statements are sent on connections whose default is mode. What comes to an unnamed statement by itself,
// in two round trips, may meet that of another client behind a pooler; all types are named in the statements, so that it
// goes without.
func execMode(mode pgx.QueryExecMode) pgx.QueryExecMode {
	if mode == pgx.QueryExecModeCacheDescribe || mode == pgx.QueryExecModeDescribeExec {
		return pgx.QueryExecModeExec
	}
	return mode
}
