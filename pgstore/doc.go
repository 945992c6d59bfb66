// Package pgstore keeps the counts of a ration.Limiter in PostgreSQL.
package pgstore
