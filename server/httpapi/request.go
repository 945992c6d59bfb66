package httpapi

import (
	"encoding/base64"
	"strings"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/strictjson"
)

// Requests. What they mean is in the package comment.

// charge is the request of peek, and one element of a list.
type charge struct {
	keyFields
	limitFields
	Cost *int64 `json:"cost"`
}

type takeRequest struct {
	charge
	ID *string `json:"id"`
}

type takeAllRequest struct {
	Charges []charge `json:"charges" strict:"required"`
	ID      *string  `json:"id"`
}

type reserveRequest struct {
	Charges        []charge `json:"charges" strict:"required"`
	ID             *string  `json:"id"`
	TTLMS          *int64   `json:"ttl_ms"`
	RefundOnExpiry bool     `json:"refund_on_expiry"`
}

type settleRequest struct {
	Amounts []int64 `json:"amounts"`
}

type cancelRequest struct{}

type renewRequest struct {
	TTLMS int64 `json:"ttl_ms" strict:"required"`
}

type progressRequest struct {
	Amounts []int64 `json:"amounts" strict:"required"`
}

type refundRequest struct {
	keyFields
	limitFields
	Cost *int64 `json:"cost"`
	AtUS int64  `json:"at_us" strict:"required"`
}

type resetRequest struct {
	shownKeyFields
	limitFields
}

type forgetRequest struct {
	keyFields
}

type hitRequest struct {
	keyFields
	WindowMS int64  `json:"window_ms" strict:"required"`
	N        *int64 `json:"n"`
}

// keyFields say who is counted.
type keyFields struct {
	Key       textKey   `json:"key"`
	KeyBase64 base64Key `json:"key_base64"`
	Group     string    `json:"group"`
}

// textKey is a string, a list of strings, or null.
type textKey struct{ parts }

// base64Key is a string or a list of strings, in base64.
type base64Key struct{ parts }

// parts are those of a key; none: Global.
type parts struct {
	given bool
	list  []string
}

// UnmarshalStrict reads one of the forms.
func (k *textKey) UnmarshalStrict(d *strictjson.Decoder) (err error) {
	if k.given, err = d.Null(); k.given || err != nil {
		return err
	}
	return k.read(d, "this must be a string, a list of strings, or null", (*strictjson.Decoder).Text)
}

// UnmarshalStrict reads one of the forms.
func (k *base64Key) UnmarshalStrict(d *strictjson.Decoder) error {
	return k.read(d, "this must be a string or a list of strings, in base64", base64Text)
}

func base64Text(d *strictjson.Decoder) (string, error) {
	text, err := d.Text()
	if err != nil {
		return "", err
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	// The decoder skips line ends.
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return "", d.Error(strictjson.WrongType, "this must be base64 of the alphabet with + and /, with padding")
	}
	return string(raw), nil
}

func (p *parts) read(d *strictjson.Decoder, forms string, one func(*strictjson.Decoder) (string, error)) error {
	p.given = true
	switch d.Next() {
	case strictjson.Array:
		err := d.Elements(func(int) error {
			part, err := one(d)
			p.list = append(p.list, part)
			return err
		})
		if err == nil && len(p.list) == 0 {
			return d.Error(strictjson.Code(codeInvalidKey), "an empty list is no key; send null for the count that everybody shares")
		}
		return err
	case strictjson.String:
		part, err := one(d)
		p.list = []string{part}
		return err
	case strictjson.Invalid:
		_, err := d.Text()
		return err
	default:
		return d.Error(strictjson.WrongType, forms)
	}
}

// key is the Key that f means.
func (f *keyFields) key() (ration.Key, error) {
	p := f.Key.parts
	switch {
	case f.Key.given && f.KeyBase64.given:
		return ration.Key{}, problem(codeInvalidKey, "give either key or key_base64, not both")
	case f.KeyBase64.given:
		p = f.KeyBase64.parts
	case !f.Key.given:
		return ration.Key{}, problem(codeMissingField, "the field \"key\" (or \"key_base64\") is missing; send null for the count that everybody shares")
	}
	key := ration.Global
	if len(p.list) > 0 {
		key = ration.KeyOf(p.list[0], p.list[1:]...)
	}
	return key.In(f.Group), nil
}

// limitFields say what is allowed.
type limitFields struct {
	Limit string  `json:"limit" strict:"required"`
	Name  *string `json:"name"`
}
