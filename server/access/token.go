package access

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// tokenPrefix begins tokens that NewToken makes, so that people and scanners of repositories know one when they see it.
const tokenPrefix = "ration_"

// Bounds of tokens. A text that a person made up is none: its hash could be searched for.
const (
	minToken  = 32
	maxToken  = 512
	maxTokens = 1000 // of a server; every call is compared with all of them
)

// NewToken makes a token of 256 random bits.
func NewToken() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
}

// Hash is the SHA-256 of a token, as it is kept.
type Hash [sha256.Size]byte

// HashOf is the hash of token. It fails if token is shorter than 32 bytes or longer than 512, or holds blanks, line ends or
// other characters that cannot be in a header.
func HashOf(token string) (Hash, error) {
	if len(token) < minToken || len(token) > maxToken {
		return Hash{}, fmt.Errorf("a token of %d bytes is not between %d and %d; \"ration token new\" makes one", len(token), minToken, maxToken)
	}
	for i := range len(token) {
		if c := token[i]; c <= ' ' || c >= 0x7F {
			return Hash{}, errors.New("a token is printable ASCII without blanks; \"ration token new\" makes one")
		}
	}
	return sha256.Sum256([]byte(token)), nil
}

const hashPrefix = "sha256:"

// String is "sha256:" and the hash in hexadecimal digits.
func (h Hash) String() string { return hashPrefix + hex.EncodeToString(h[:]) }

func parseHash(text string) (h Hash, err error) {
	digits, ok := strings.CutPrefix(text, hashPrefix)
	if ok && len(digits) == 2*len(h) {
		_, err = hex.Decode(h[:], []byte(digits))
	}
	if !ok || len(digits) != 2*len(h) || err != nil {
		// The text may be a token itself, so it is not shown.
		return h, errors.New("the second word is not sha256: and 64 hexadecimal digits, as \"ration token hash\" prints them; tokens themselves are not kept here")
	}
	return h, nil
}

// Token is what a server knows of a token.
type Token struct {
	Name    string // of who has it, for logs; a letter, then letters, digits, _, . and -
	Hash    Hash
	Scopes  []Scope   // at least one
	Expires time.Time // the zero Time: never
}

var nameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// CheckName is an error if name is none of a token.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%.80q is not a name: a letter, then letters, digits, _, . and -, at most 64 in all", name)
	}
	return nil
}

// ParseToken reads NAME HASH SCOPES [EXPIRES], as in
//
//	web sha256:9f86d081… take:chat,read 2027-01-01
//
// SCOPES is as ParseScopes reads it, EXPIRES as ParseExpires does.
func ParseToken(line string) (t Token, err error) {
	words := strings.Fields(line)
	if len(words) < 3 || len(words) > 4 {
		return t, errors.New("a token is a name, sha256: and a hash, scopes, and perhaps when it expires, with blanks between them")
	}
	t.Name = words[0]
	if err := CheckName(t.Name); err != nil {
		return t, err
	}
	if t.Hash, err = parseHash(words[1]); err != nil {
		return t, fmt.Errorf("%s: %w", t.Name, err)
	}
	if t.Scopes, err = ParseScopes(words[2]); err != nil {
		return t, fmt.Errorf("%s: %w", t.Name, err)
	}
	if len(words) == 4 {
		if t.Expires, err = ParseExpires(words[3]); err != nil {
			return t, fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return t, nil
}

// String is the line that ParseToken reads.
func (t *Token) String() string {
	line := t.Name + " " + t.Hash.String() + " " + formatScopes(t.Scopes)
	if !t.Expires.IsZero() {
		line += " " + formatExpires(t.Expires)
	}
	return line
}

// ParseExpires reads when a token ends: a day as 2027-01-01, whose beginning in UTC it is, a time as 2027-01-01T12:00:00Z, or
// never, which is the zero Time.
func ParseExpires(text string) (time.Time, error) {
	if text == "never" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(form, text); err == nil && at.Year() > 1970 { // the zero Time would be for ever
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is not a day such as 2027-01-01, a time such as 2027-01-01T12:00:00Z, or never", text)
}

func formatExpires(at time.Time) string {
	if at.Equal(at.Truncate(24 * time.Hour)) {
		return at.Format(time.DateOnly)
	}
	return at.Format(time.RFC3339)
}

// ParseTokens reads a file of tokens: a line for each, and lines that are empty or begin with #. It fails if two have one
// name or one hash. The error has all faults, each with its line.
func ParseTokens(data []byte) (tokens []Token, err error) {
	var faults []error
	scanner := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; scanner.Scan(); n++ {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		t, err := ParseToken(line)
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		tokens = append(tokens, t)
	}
	faults = append(faults, scanner.Err(), CheckTokens(tokens))
	return tokens, errors.Join(faults...)
}

// CheckTokens is an error if two of tokens have one name or one hash, or there are more than 1000: every call is compared
// with all of them.
func CheckTokens(tokens []Token) error {
	var faults []error
	names, hashes := map[string]bool{}, map[Hash]string{}
	for i := range tokens {
		t := &tokens[i]
		if names[t.Name] {
			faults = append(faults, fmt.Errorf("two tokens have the name %s; names must differ", t.Name))
		}
		if other, twice := hashes[t.Hash]; twice {
			faults = append(faults, fmt.Errorf("%s and %s are one token; make another for one of them", other, t.Name))
		}
		names[t.Name], hashes[t.Hash] = true, t.Name
	}
	if len(tokens) > maxTokens {
		faults = append(faults, fmt.Errorf("%d tokens are more than %d", len(tokens), maxTokens))
	}
	return errors.Join(faults...)
}
