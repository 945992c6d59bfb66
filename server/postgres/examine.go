package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/pgstore"
	"github.com/ration-go/ration/server"
	"github.com/ration-go/ration/server/doctor"
)

// Examine is a server.ExamineFunc. It makes no schema; without one, the doctor's race is not run.
func Examine(url string, cfg *server.Config, opts *doctor.Options) *doctor.Subject {
	e := &examination{url: url, cfg: cfg, opts: opts}
	return &doctor.Subject{
		Checks:  []doctor.Check{{Name: "connection", Do: e.connection}, {Name: "database", Do: e.database}},
		Open:    e.open,
		Explain: explain,
		Close: func() {
			if e.pool != nil {
				e.pool.Close()
			}
		},
	}
}

type examination struct {
	url   string
	cfg   *server.Config
	opts  *doctor.Options
	pool  *pgxpool.Pool
	where string
	ready bool // the schema is there, and this role may use it
}

func (e *examination) connection(ctx context.Context, say func(doctor.Finding)) bool {
	config, err := pgxpool.ParseConfig(e.url)
	if err != nil {
		say(doctor.Finding{Severity: doctor.Error, Code: "config.store", Where: "store", Text: errURL.Error(), Remedy: "correct the setting store"})
		return false
	}
	c := config.ConnConfig
	e.where = net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		say(doctor.Failure(err, e.where))
		return false
	}
	e.pool = pool
	conn, err := pool.Acquire(ctx)
	if err != nil {
		say(failure(err, e.where, c.TLSConfig != nil && ctx.Err() == nil))
		return false
	}
	defer conn.Release()
	secured, ok := conn.Conn().PgConn().Conn().(*tls.Conn)
	if !ok {
		for _, f := range doctor.PlainFindings(e.where) {
			say(f)
		}
		return true
	}
	for _, f := range doctor.CertificateFindings(e.where, secured.ConnectionState().PeerCertificates, e.opts.Now()) {
		say(f)
	}
	return true
}

// failure is err of a connection that was not made. With TLS, what is neither of the network nor the database's is TLS's.
func failure(err error, where string, secured bool) doctor.Finding {
	if f, ok := explain(err); ok {
		f.Where = where
		return f
	}
	f := doctor.Failure(err, where)
	if f.Code == "store.failed" && secured {
		f = doctor.Failure(fmt.Errorf("%w: %w", doctor.ErrTLS, err), where)
	}
	return f
}

// explain is what the database's own errors mean to an operator.
func explain(err error) (f doctor.Finding, ok bool) {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return f, false
	}
	f = doctor.Finding{Severity: doctor.Error, Text: refused.Message + " (" + refused.Code + ")"}
	switch {
	case strings.HasPrefix(refused.Code, "28"): // invalid authorization
		f = doctor.Failure(fmt.Errorf("%w: %s", doctor.ErrAuth, f.Text), "")
	case refused.Code == "3D000":
		f.Code, f.Remedy = "postgres.database", "create the database, or correct its name in the URL"
	case refused.Code == "42501":
		f.Code, f.Remedy = "postgres.rights", "grant this role what docs/postgres.md lists"
	case refused.Code == "53300":
		f.Code, f.Remedy = "postgres.connections", "lower pool_max_conns in the URL, raise max_connections, or put a pooler before the database"
	case refused.Code == "25006":
		f.Code, f.Remedy = "postgres.read_only", "connect to the primary"
	case strings.HasPrefix(refused.Code, "53"): // out of disk or memory
		f.Code, f.Remedy = "store.full", "give the database more of it"
	default:
		f.Code, f.Remedy = "store.failed", "see what the error says"
	}
	return f, true
}

func (e *examination) database(ctx context.Context, say func(doctor.Finding)) bool {
	setup, err := pgstore.Inspect(ctx, e.pool, options(e.cfg))
	if err != nil {
		say(failure(err, e.where, false))
		return false
	}
	e.ready = setup.Version >= setup.Wanted && len(setup.Lacks) == 0 && !setup.Standby && !setup.ReadOnly
	for _, f := range setup.Findings(options(e.cfg)) {
		one := doctor.Of(f)
		one.Where = e.where
		say(one)
	}
	var most int
	if _, err := fmt.Sscan(setup.Settings["max_connections"], &most); err == nil && setup.Pooler == "" &&
		setup.MostConnections <= most && e.opts.Replicas > 1 && e.opts.Replicas*setup.MostConnections > most {
		say(doctor.Finding{Severity: doctor.Warning, Code: "postgres.connections", Where: e.where,
			Text:   fmt.Sprintf("%d servers may open %d connections each, and the database has %d for all", e.opts.Replicas, setup.MostConnections, most),
			Remedy: "set pool_max_conns in the URL, or put a pooler before the database"})
	}
	return true
}

func (e *examination) open(ctx context.Context) (driver.Store, error) {
	if !e.ready {
		return nil, nil
	}
	pool, err := connect(ctx, e.url)
	if err != nil {
		return nil, err
	}
	o := options(e.cfg)
	o.NoMigrate, o.SweepEvery, o.Logger = true, -1, slog.New(slog.DiscardHandler)
	s, err := pgstore.New(ctx, pool, o)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &examined{&store{s, pool}}, nil
}

// examined is a store that has been asked about its set-up already.
type examined struct{ driver.Store }
