package server

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// envPrefix begins the names of all variables of ration.
const envPrefix = "RATION_"

// Variables that are not settings.
const (
	envConfig = "RATION_CONFIG" // the file
	envServer = "RATION_SERVER" // the server that client commands talk to
	envToken  = "RATION_TOKEN"  // what client commands say who they are by
	envStage  = "RATION_ENV"    // "production" draws a warning from ration.New about a store that is not shared
)

// Load reads a configuration: the defaults, over them the YAML file (none if file is ""), over that the variables of env
// that begin with RATION_, in the form of os.Environ. An empty variable is as good as unset.
//
// A key of the file or a variable that is not known is an error. The error holds every fault, each with file and line or the
// name of the variable.
func Load(file string, env []string) (*Config, error) {
	c := Defaults()
	return c, c.load(file, env, nil)
}

// given is a flag that was set.
type given struct{ setting, text string }

func (c *Config) load(file string, env []string, flags []given) error {
	var faults []error
	c.OTel.Endpoint = collectorIn(env) // what follows says it better
	if file != "" {
		faults = append(faults, c.loadFile(file)...)
	}
	faults = append(faults, c.loadEnv(env)...)
	for _, g := range flags {
		s := settingNamed(g.setting)
		if err := s.set(c, g.text); err != nil {
			faults = append(faults, fault{file: "--" + s.flag(), err: err})
		}
	}
	if len(faults) == 0 {
		_, err := c.Envoy.load()
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func (c *Config) loadEnv(env []string) (faults []error) {
	known := []string{envConfig, envServer, envToken, envStage}
	byEnv := map[string]*setting{}
	for _, s := range settings {
		byEnv[s.env()] = s
		known = append(known, s.env())
	}
	for _, pair := range slices.Sorted(slices.Values(env)) {
		name, text, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		s := byEnv[name]
		switch {
		case s == nil && !slices.Contains(known, name):
			faults = append(faults, fault{file: name, err: fmt.Errorf("unknown variable; %w", nearest(name, known))})
		case s != nil && text != "":
			if err := s.set(c, text); err != nil {
				faults = append(faults, fault{file: name, err: err})
			}
		}
	}
	return faults
}

// maxFile bounds a configuration file, in bytes.
const maxFile = 1 << 20

func (c *Config) loadFile(path string) []error {
	info, err := os.Stat(path)
	var data []byte
	switch {
	case err != nil:
	case info.Size() > maxFile:
		err = fmt.Errorf("%d bytes are more than a configuration may have (%d)", info.Size(), maxFile)
	default:
		data, err = os.ReadFile(path)
	}
	if err != nil {
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = fmt.Errorf("the configuration cannot be read: %w; name another file with --config", pathErr.Err)
		}
		return []error{fault{file: path, err: err}}
	}
	f := file{path: path, config: c}
	all := f.read(data)
	slices.SortStableFunc(all, func(a, b fault) int { return cmp.Compare(a.line, b.line) })
	var faults []error
	for _, one := range all {
		faults = append(faults, one)
	}
	return faults
}

// Error is "ration.yaml:3: limits.chat: …".
func (f fault) Error() string {
	var b strings.Builder
	if f.file != "" {
		b.WriteString(f.file)
		if f.line > 0 {
			fmt.Fprintf(&b, ":%d", f.line)
		}
		b.WriteString(": ")
	}
	if f.name != "" {
		b.WriteString(f.name + ": ")
	}
	b.WriteString(f.message())
	return b.String()
}

func (f fault) message() string { return strings.TrimPrefix(f.err.Error(), "ration: ") }

func (f fault) Unwrap() error { return f.err }

// faultsOf is the single faults of an error of load or Validate.
func faultsOf(err error) (faults []fault) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		one, ok := errors.AsType[fault](err)
		if !ok {
			one = fault{err: err}
		}
		return []fault{one}
	}
	for _, e := range joined.Unwrap() {
		faults = append(faults, faultsOf(e)...)
	}
	return faults
}
