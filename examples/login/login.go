// Package login limits failed logins, by account and by address.
//
// The attempt is charged before the password is looked at, and given back if it was right. To look first and charge
// afterwards would let any number of parallel guesses through.
package login

import (
	"context"
	"errors"
	"time"

	"github.com/ration-go/ration"
)

var (
	perAccount = ration.Rule{Name: "login-account", Limit: ration.SlidingWindow{Limit: 5, Window: 15 * time.Minute}}
	perAddress = ration.Rule{Name: "login-address", Limit: ration.TokenBucket{Burst: 50, Refill: ration.PerMinute(10)}}
)

// The answers of Try that are no trouble of ours.
var (
	ErrWrong  = errors.New("login: wrong name or password")
	ErrLocked = errors.New("login: too many attempts, come back later")
)

// A Guard limits logins. Names are to be folded by the caller, so that Ada and ada are one account.
type Guard struct {
	Limiter *ration.Limiter
}

// Try asks check whether the password is right, unless the account or the address has failed too often. Another error
// than ErrWrong and ErrLocked means that nobody could tell; the login is then refused as well.
func (g *Guard) Try(ctx context.Context, account, address string, check func(context.Context) (bool, error)) error {
	o, err := g.Limiter.TakeAll(ctx, ration.KeyOf(account).Charge(perAccount, 1), ration.KeyOf(address).Charge(perAddress, 1))
	if err != nil {
		return err
	}
	if !o.Allowed {
		return ErrLocked
	}
	right, err := check(ctx)
	if err == nil && !right {
		return ErrWrong
	}
	// Refund works on although ctx may be done by now.
	_, account1 := g.Limiter.Refund(ctx, ration.KeyOf(account), perAccount, 1, o.At)
	_, address1 := g.Limiter.Refund(ctx, ration.KeyOf(address), perAddress, 1, o.At)
	if err != nil {
		return errors.Join(err, account1, address1)
	}
	return nil // a failed refund only makes the limit stricter: no reason to keep out who knows the password
}
