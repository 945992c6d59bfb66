// Package postgres opens the PostgreSQL store for a server. It is apart from package server so that a program without it
// does not link the driver.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/pgstore"
	"github.com/ration-go/ration/server"
)

// Open is a server.OpenFunc for postgres://… and postgresql://…. The URL is that of libpq, with TLS by sslmode and its
// companions, run-time parameters such as statement_timeout, and the pool's settings: pool_max_conns, pool_min_conns,
// pool_max_conn_lifetime and the like.
func Open(ctx context.Context, url string, cfg *server.Config) (driver.Store, error) {
	pool, err := connect(ctx, url)
	if err != nil {
		return nil, err
	}
	s, err := pgstore.New(ctx, pool, options(cfg))
	if err != nil {
		pool.Close()
		return nil, advised(err)
	}
	return &store{s, pool}, nil
}

// advised says what to do about tables that are not there, or that this role may not make or use.
func advised(err error) error {
	var refused *pgconn.PgError
	if errors.Is(err, pgstore.ErrSchema) || errors.As(err, &refused) && refused.Code == "42501" { // insufficient privilege
		return fmt.Errorf("%w; run \"ration migrate\" with the URL of a role that may create them, and grant this one the use of them", err)
	}
	return err
}

// Migrate is a server.MigrateFunc.
func Migrate(ctx context.Context, url string, cfg *server.Config, print io.Writer) error {
	if print != nil {
		_, err := io.WriteString(print, pgstore.SQL(options(cfg)))
		return err
	}
	pool, err := connect(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	return pgstore.Migrate(ctx, pool, options(cfg))
}

// errURL stands for the driver's error, which may quote the URL, and with it a password.
var errURL = errors.New("the URL cannot be read; it is postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full&pool_max_conns=8")

func connect(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errURL
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("the database cannot be reached: %w", err)
	}
	return pool, nil
}

func options(cfg *server.Config) *pgstore.Options {
	return &pgstore.Options{Schema: cfg.Postgres.Schema, NoMigrate: cfg.Postgres.Migrate == "off", Logger: slog.Default()}
}

// store closes the pool too.
type store struct {
	*pgstore.Store
	pool *pgxpool.Pool
}

func (s *store) Close() error {
	err := s.Store.Close()
	s.pool.Close()
	return err
}
