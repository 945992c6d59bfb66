package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/ration-go/ration/server/access"
	"github.com/ration-go/ration/server/doctor"
)

// fewBytes is the least number of different bytes in a secret that is not a word or a row of one letter.
const fewBytes = 8

func (l *configLook) secret() {
	path := l.cfg.KeySecretFile
	if path == "" {
		return
	}
	secret, err := readSecret(path)
	if err != nil {
		l.say(doctor.Error, "secret.file", "key_secret_file", strings.TrimPrefix(err.Error(), "key_secret_file: "), "correct the name or the file; openssl rand -base64 32 makes a secret")
		return
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		l.say(doctor.Warning, "secret.mode", path, fmt.Sprintf("others can use this secret: its mode is %v", info.Mode().Perm()), "chmod 600, or 400, for the user of the server")
	} else if errors.Is(err, fs.ErrNotExist) {
		return
	}
	slices.Sort(secret)
	if len(slices.Compact(secret)) < fewBytes {
		l.say(doctor.Warning, "secret.weak", path, "this secret is easily guessed: it has few different characters",
			"make another by openssl rand -base64 32; with it, all counts begin anew")
	}
}

// tokens looks at those of callers, of which the server keeps hashes and when they end.
func (l *configLook) tokens() {
	var all []access.Token
	for _, line := range l.cfg.Access.Tokens {
		if t, err := access.ParseToken(line); err == nil { // Validate has told of others
			all = append(all, t)
		}
	}
	if path := l.cfg.Access.TokensFile; path != "" {
		more, mode, err := tokensOf(path)
		if err != nil {
			l.say(doctor.Error, "secret.file", "access.tokens_file", err.Error(), "correct the name or the file; \"ration token new\" prints lines for it")
			return
		}
		if mode&0o022 != 0 {
			l.say(doctor.Warning, "secret.mode", path, fmt.Sprintf("others can add tokens of their own: its mode is %v", mode), "chmod 600, or 644, for the user of the server")
		}
		all = append(all, more...)
	}
	for _, t := range all {
		if t.Expires.IsZero() {
			continue
		}
		for _, f := range doctor.TokenFindings("access token "+t.Name, t.Expires, l.ask.Now()) {
			if f.Severity == doctor.Error { // of callers that may be gone
				f.Severity = doctor.Note
			}
			l.found = append(l.found, f)
		}
	}
}

// certificate looks at the server's own.
func (l *configLook) certificate() {
	cert, key := l.cfg.TLS.CertFile, l.cfg.TLS.KeyFile
	if cert == "" || key == "" {
		return
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		l.say(doctor.Error, "secret.file", "tls.cert_file", err.Error(), "correct the names or the files")
		return
	}
	if info, err := os.Stat(key); err == nil && info.Mode().Perm()&0o007 != 0 {
		l.say(doctor.Warning, "secret.mode", key, fmt.Sprintf("everybody can use this key: its mode is %v", info.Mode().Perm()), "chmod 600, or 640")
	}
	l.found = append(l.found, doctor.CertificateFindings("tls.cert_file", []*x509.Certificate{pair.Leaf}, l.ask.Now())...)
}

func tokensOf(path string) (tokens []access.Token, mode fs.FileMode, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if info.Size() > maxFile {
		return nil, 0, fmt.Errorf("%s: %d bytes are more than a file of tokens may have (%d)", path, info.Size(), maxFile)
	}
	data, err := os.ReadFile(path)
	if err == nil {
		tokens, err = access.ParseTokens(data)
	}
	return tokens, info.Mode().Perm(), err
}
